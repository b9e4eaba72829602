"""Whatever is wrong with what somebody gives: one clear line that says what to do, nothing half written, nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

import agentlab as al
from agentlab.errors import (
    AgentlabError,
    BadDefinition,
    BadLab,
    BadSessionId,
    NotPortable,
    SessionBusy,
    StorageFailed,
    UnknownName,
    UserError,
)
from agentlab.lab import Lab
from agentlab.models.scripted import ScriptedModel
from agentlab.testing.messages_server import MessagesServer

from . import tasks
from .looking import files_with

LOCK = threading.Lock()


def refused(kind, call, *words):
    """The message of the refusal: of this kind, on one line, and with these words."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and 10 < len(message) < 600, message
    for word in words:
        assert word in message, message
    return message


def nothing_is_left(lab, sessions=0):
    """No half-made session: every one that is listed can be read, and there is no temporary folder."""
    found = lab.sessions()
    assert len(found) == sessions
    for session in found:
        assert session.verify().seq == len(session.events()) >= 1
        assert session.status().events >= 1
    folder = lab.path / "sessions"
    assert [p.name for p in folder.glob("*.tmp")] == [] if folder.exists() else True
    assert len(list(folder.iterdir())) == sessions if folder.exists() else sessions == 0


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "sales_reprot"}, ("sales_reprot", "did you mean sales_report?")),
        ({"model": "scripted:agentlab.tasks.sales:polcy"}, ("polcy", "policy")),
        ({"model": "cluade-sonnet"}, ("cluade-sonnet", "anthropic:")),
        ({"model": "nonsense:model"}, ("nonsense:model", "anthropic:model")),
        ({"policy": "evry=5"}, ("evry", "did you mean every")),
        ({"policy": "every=-1"}, ("every",)),
        ({"crash": ["harness@tool_reslt"]}, ("tool_reslt", "did you mean", "tool_result")),
        ({"crash": ["harnes@tool_result"]}, ("harnes", "did you mean harness?")),
        ({"crash": ["tool_result"]}, ("target@point", "harness@tool_result")),
        ({"goall": "x"}, ("goall", "did you mean goal")),
        ({"limits": {"max_turn": 3}}, ("max_turn",)),
        ({"scheme": "hybird"}, ("hybird", "did you mean hybrid?")),
        ({"durability": "dsk"}, ("dsk", "did you mean disk?")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_name_that_does_not_exist_gets_its_nearest_ones(lab, options, words):
    options = dict(options)
    task = options.pop("task", "sales_report")
    refused(UserError, lambda: lab.run(task, timeout_s=120, **options), *words)
    nothing_is_left(lab)


def test_unknown_options_of_tools_and_steps(lab):
    refused(UnknownName, lambda: al.tool(tasks.measure, efect="pure"), "efect", "did you mean effect")
    refused(UnknownName, lambda: al.tool(tasks.measure, effect="sandbox"), "sandbox", "did you mean sandboxed?")
    refused(UnknownName, lambda: al.step("a", tol="measure"), "tol", "did you mean tool")
    wrong = tasks.task("measure", steps=[al.step("measure", tool="mesure")])
    refused(UnknownName, lambda: lab.create(wrong), "mesure", "did you mean measure?")
    refused(BadDefinition, lambda: lab.create(tasks.task("measure", goal=" ")), "no goal")
    nothing_is_left(lab)


def test_a_session_that_does_not_exist(lab):
    lab.create(tasks.task("measure"), session_id="report-may")
    refused(UnknownName, lambda: lab.session("report-mai"), "report-mai", "did you mean report-may?")
    refused(UnknownName, lambda: lab.session(""))
    refused(UserError, lambda: lab.create(tasks.task("measure"), session_id="report-may"), "exists already")
    nothing_is_left(lab, 1)


def test_a_model_that_does_not_exist_is_refused_before_a_wake_writes_anything(lab):
    session = lab.create(tasks.task("measure"))
    before = session.state.seq
    refused(UnknownName, lambda: session.wake(model="cluade-sonnet", timeout_s=120), "cluade-sonnet")
    assert session.state.seq == before
    assert session.wake(timeout_s=120).status().status == "completed"


# --- session ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["..x", "-x", "Ärger mit Ümläuten 東京", "a=b", "x" * 120])
def test_a_strange_session_id_stays_inside_the_lab_and_works(lab, name):
    around = set(lab.path.parent.iterdir())
    session = lab.run(tasks.task("measure"), session_id=name, timeout_s=120)
    assert session.status().status == "completed" and session.id == name
    with Lab(lab.path) as again:
        assert [s.id for s in again.sessions()] == [name]
        assert again.session(name).verify().seq == session.state.seq
    assert set(lab.path.parent.iterdir()) - around <= {lab.path}, "nothing outside"
    nothing_is_left(lab, 1)


@pytest.mark.parametrize(
    "name",
    ["", "x" * 300, "ü" * 200, "a\0b", "half \ud800", "../../outside", "..", ".", "a/b", "a\\b", "/tmp/x"],
    ids=["empty", "long", "wide", "nul", "half", "outside", "above", "here", "slash", "backslash", "absolute"],
)
def test_a_session_id_that_can_not_be_used(lab, name):
    message = refused(BadSessionId, lambda: lab.create(tasks.task("measure"), session_id=name), "session id")
    message.encode()
    nothing_is_left(lab)


# --- labs ------------------------------------------------------------------------------------------------------------


def test_a_lab_that_is_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("not a lab")
    refused(BadLab, lambda: Lab(path), str(path), "is a file")
    refused(BadLab, lambda: Lab(path / "below").create(tasks.task("measure")), "a part of the path is a file")
    refused(BadLab, lambda: Lab(path / "below").create("sales_report"), "a part of the path is a file")
    assert path.read_text() == "not a lab"


def test_a_lab_that_can_not_be_written():
    home = Path(tempfile.mkdtemp(prefix="agentlab-readonly-"))
    try:
        home.chmod(0o755)
        (home / "lab").mkdir()
        (home / "lab").chmod(0o555)
        (home / "state").mkdir()
        (home / "state").chmod(0o777)
        for task in (tasks.task("measure"), tasks.task("measure", files={"a.txt": b"1"})):
            answer = as_nobody(home, lambda task=task: Lab(home / "lab").create(task))
            assert answer.startswith("BadLab: ") and "no permission to write there" in answer, answer
            assert "\n" not in answer
        assert list((home / "lab").iterdir()) == []
    finally:
        shutil.rmtree(home)


def as_nobody(home, action):
    """What ``action`` raises in a child that is not root: class and message, or ``nothing``."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            os.environ["AGENTLAB_STATE_DIR"] = str(home / "state")
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            action()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@pytest.fixture
def small_disk(tmp_path):
    """A file system of four megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place):
    """Use up a file system to the last byte."""
    with open(place / "filler", "ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                pass


def test_a_lab_on_a_full_disk(small_disk):
    fill(small_disk)
    lab = Lab(small_disk / "lab")
    refused(AgentlabError, lambda: lab.create(tasks.task("measure")), "the disk is full")
    refused(AgentlabError, lambda: lab.create("sales_report"), "the disk is full")
    nothing_is_left(lab)
    (small_disk / "filler").unlink()
    with lab:
        assert lab.run(tasks.task("measure"), timeout_s=120).status().status == "completed"


def test_a_disk_that_fills_up_while_a_session_runs_loses_nothing(small_disk, tmp_path, until):
    gate = tmp_path / "gate"
    with Lab(small_disk / "lab") as lab:
        task = tasks.task("gate", "write", tools=(tasks.GATED, *tasks.TOOLS))
        session = lab.create(task, params={"gate": str(gate)})
        session.start()
        until(gate.with_name("gate.reached").exists, what="the tool has begun")
        kept = {e.seq: e.hash for e in session.events()}
        fill(small_disk)
        gate.touch()
        until(lambda: not lab.supervisor.alive(session.id), what="no harness goes on without a disk")
        fill(small_disk)  # what the dead have left behind is tidied up, which makes room
        with pytest.raises(StorageFailed, match="full"):
            session.pause("while it is full")
        now = {e.seq: e.hash for e in session.events()}
        assert all(now[seq] == row for seq, row in kept.items()), "what was acknowledged stands"
        session.verify()

        (small_disk / "filler").unlink()
        session.wake(timeout_s=120)
        assert session.status().status == "completed", session.locate()
        session.verify()
        assert session.read_file("report.txt") == b"hello\n"


# --- tools and validators --------------------------------------------------------------------------------------------


def test_a_tool_that_can_not_travel_is_refused_by_name(lab):
    lock = threading.Lock()

    def locked(text: str) -> str:
        """Use a lock of this process."""
        with lock:
            return text

    task = al.Task("locked", "Lock.", tools=[al.tool(locked, effect="pure")], model=tasks.by_step)
    refused(NotPortable, lambda: lab.create(task), "locked", "lock")
    nothing_is_left(lab)


def told(session):
    """What the model was heard to say of what it was told."""
    return " ".join(e.payload["text"] for e in session.events() if e.type == "model_response")


def test_a_validator_of_a_step_that_raises_is_told_to_the_model_and_ends_in_a_pause(lab):
    task = tasks.task(
        steps=[al.step("write", validator=tasks.raising_validator)],
        model=tasks.says_why_not,
        limits={"rounds_per_step": 4},
    )
    session = lab.run(task, timeout_s=120)
    status = session.status()
    assert (status.status, status.reason, status.resumable) == ("paused", "rounds", True)
    assert "ValueError: this validator is broken" in told(session)
    reasons = [e.payload["reasons"] for e in session.events() if e.type == "step_validated"]
    assert reasons and all("this validator is broken" in reason[0] for reason in reasons)
    session.verify()


def test_a_validator_of_the_task_that_raises_ends_in_a_failure_with_its_reason(lab):
    task = tasks.task("measure", validator=tasks.raising_validator, limits={"attempts": 2})
    session = lab.run(task, timeout_s=120)
    assert session.status().status == "failed"
    assert "ValueError: this validator is broken" in session.result["result"]["reason"]
    assert [e.payload["attempt"] for e in session.events() if e.type == "attempt_started"] == [1, 2]
    refused(UserError, lambda: session.wake(timeout_s=10), "has ended (failed)", "fork")


def test_an_effect_that_surely_never_began_is_an_error_and_leaves_no_doubt(lab):
    """The receiver that the task needs was not named: nothing can have happened, and nobody is asked whether it did."""
    session = lab.run("sales_report", params={"receiver_url": ""}, limits={"rounds_per_step": 4}, timeout_s=120)
    assert session.status().status == "paused" and session.state.plan.current == 5
    errors = [e for e in session.events() if e.type == "tool_error"]
    assert errors and all(e.tool_name == "notify" and "receiver_url" in e.payload["message"] for e in errors)
    assert not [e for e in session.events() if e.type == "effect_in_doubt"]
    assert "receiver_url" in session.locate().error
    session.verify()


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_model_that_needs_a_key_and_has_none(lab, monkeypatch, tmp_path):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "no-profiles"))
    key = "sk-ant-late-0123456789abcdef"
    with MessagesServer(ScriptedModel(tasks.by_step), key=key) as server:
        session = lab.run(tasks.task("measure", model="claude-test", base_url=server.url), timeout_s=120)
        status = session.status()
        assert (status.status, status.reason, status.resumable) == ("paused", "model", True)
        found = session.locate()
        assert "ANTHROPIC_API_KEY" in found.error and "ANTHROPIC_API_KEY" in " ".join(found.evidence)
        assert not server.requests and not session.state.budget.at_risk, "nothing was sent, nothing can be spent"
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
        session.wake(timeout_s=120)
        assert session.status().status == "completed" and session.status().crashes == 0
    session.verify()
    assert files_with(lab.path, key) == []


# --- sessions in another standing ------------------------------------------------------------------------------------


def test_waking_sessions_that_have_ended_that_wait_and_that_never_started(lab):
    ended = lab.run(tasks.task("measure"), timeout_s=120)
    before = ended.state.seq
    refused(UserError, lambda: ended.wake(timeout_s=10), "has ended (completed)", "fork")
    refused(UserError, lambda: ended.step(timeout_s=10), "has ended")
    refused(UserError, lambda: ended.reply("hello"), "asks nothing now")
    refused(UserError, lambda: ended.kill("harness"), "no living harness")
    refused(UnknownName, lambda: ended.kill("harnes"), "did you mean harness?")
    refused(UnknownName, lambda: ended.read_file("reprot.txt"), "reprot.txt")
    refused(UnknownName, lambda: ended.settle("no-such-key", "done"), "no-such-key")
    assert ended.state.seq == before, "a refusal writes nothing"

    waiting = lab.run(tasks.task("ask"), timeout_s=120)
    before = waiting.state.seq
    refused(UserError, lambda: waiting.wake(timeout_s=10), "Which region?", "reply")
    assert waiting.state.seq == before

    fresh = lab.create(tasks.task("measure"))
    assert fresh.wake(timeout_s=120).status().status == "completed", "a wake is also a first start"
    nothing_is_left(lab, 3)


def test_a_session_whose_harness_is_alive(lab, tmp_path, until):
    gate = tmp_path / "gate"
    session = lab.create(tasks.task("gate", tools=(tasks.GATED,)), params={"gate": str(gate)})
    session.start()
    until(gate.with_name("gate.reached").exists, what="the tool has begun")
    before = session.state.seq
    refused(SessionBusy, lambda: session.start(), str(session.state.process["pid"]))
    assert session.state.seq == before
    gate.touch()
    assert session.wait(120).status == "completed"
