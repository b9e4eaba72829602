"""Lines that IPython would read otherwise, expansion, and the verbs for processes and files."""

from __future__ import annotations

import json

import pytest

import agentlab as al
from agentlab import process
from agentlab.errors import BadDefinition, UserError
from agentlab.notebook.magic import keep_question_marks
from tests.notebook.conftest import SLOW, held_in, hold
from tests.notebook.test_lines import ASKING


def test_an_answer_may_end_in_a_question_mark(shell):
    shell.run(ASKING)
    for body in ("%agent reply --wake Is May right?", "for _ in range(1):\n    %agent reply --wake Really, this one??"):
        assert shell.run("%agent run asking").status.status == "waiting"
        shell.run(body)
        assert shell.run("%agent status").status.status == "completed"
    replies = [e.payload["text"] for e in shell.run("%agent log --from 1").session.events() if e.type == "user_reply"]
    assert replies == ["Really, this one??"]
    shell.run("%agent run asking")
    shell.run("%%agent reply --wake\nShall I {really}\nanswer $this?")
    said = [e.payload["text"] for e in shell.run("%agent log").session.events() if e.type == "user_reply"]
    assert said == ["Shall I {really}\nanswer $this?"]  # the body of a cell is never expanded


def test_help_with_a_question_mark_still_works(shell):
    assert keep_question_marks(["%agent?\n", "%agent reply?\n", "x = 1\n"])[0] == "%agent?\n"
    assert "get_ipython().run_line_magic('pinfo', '%agent')" in shell.ip.transform_cell("%agent?")
    before = len(shell.ip.input_transformers_cleanup)
    shell.ip.run_line_magic("reload_ext", "agentlab")
    assert len(shell.ip.input_transformers_cleanup) == before


def test_names_are_expanded_in_the_line(shell):
    shell.run(ASKING)
    shell.run("answer = 'May'\nwho = 'asking'")
    assert shell.run("%agent run {who}").status.status == "waiting"
    shell.run("%agent reply --wake {answer} or $answer?")
    said = [e.payload["text"] for e in shell.run("%agent log").session.events() if e.type == "user_reply"]
    assert said == ["May or May?"]


def test_ps_and_reap(shell, here, monkeypatch):
    assert shell.run("%agent ps").rows == ()
    shell.run(SLOW)
    hold(1)
    session = shell.run("%agent start slow").session
    held_in(session, 1)
    rows = shell.run("%agent ps").rows
    kinds = {row[0] for row in rows}
    assert {"keeper", "harness"} <= kinds and all(row[2] == "…" for row in rows)  # plain: nothing that changes
    assert all(row[5] == "this kernel" for row in rows if row[4] == "alive")
    monkeypatch.setenv("AGENTLAB_DISPLAY", "live")
    assert str(session.state.process["pid"]) in str(shell.run("%agent ps"))
    assert "nothing to end" in str(shell.run("%agent reap"))
    assert process.liveness(session.state.process) == "alive"
    shell.run("%agent kill harness")


@pytest.fixture
def session(here, tmp_path):
    return here.go(tmp_path / "lab").run(al.Task(name="said", goal="Say it.", model=lambda view: al.say("it")))


def test_export(session, tmp_path, shell):
    made = session.export(tmp_path / "run.jsonl")
    events = session.events()
    lines = [json.loads(line) for line in made.path.read_text().splitlines()]
    assert [line["seq"] for line in lines] == [e.seq for e in events] and made.events == len(events)
    assert list(lines[0])[:5] == ["sessionId", "seq", "ts", "type", "toolName"]
    assert lines[0]["payload"] == session.content(events[0])
    parquet = session.export(tmp_path / "run.parquet", from_seq=2)
    assert parquet.events == len(events) - 1 and parquet.path.read_bytes()[:4] == b"PAR1"
    shown = shell.run(f"%agent export {session.id} --to some.jsonl --from 2 --until 3")
    assert "2 events in some.jsonl" in str(shown) and shown.value.events == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "run.jsonl",
        "run.parquet",
        "some.jsonl",
    ]


def test_export_that_can_not_be(session, tmp_path):
    with pytest.raises(BadDefinition, match="jsonl or .parquet"):
        session.export(tmp_path / "run.csv")
    with pytest.raises(UserError, match="no events from 4000"):
        session.export(tmp_path / "run.jsonl", from_seq=4000)
    with pytest.raises(UserError, match="can not be written"):
        session.export(tmp_path / "nowhere" / "run.jsonl")
    assert [p for p in tmp_path.iterdir() if p.is_file()] == []


def test_wait_blocks_as_a_call_and_waits_under_await(here, tmp_path):
    import asyncio

    names: dict = {}
    exec(SLOW, names)
    held = hold(2)
    lab = here.go(tmp_path / "lab")

    async def both():
        session = lab.run(names["slow"], background=True)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1
                if ticks > 5:  # if the loop stood still during the wait, it would never end
                    held.unlink(missing_ok=True)

        ticking = asyncio.create_task(tick())
        status = await session.wait()
        ticking.cancel()
        plain = session.wait()  # not awaited: a plain call, though in a coroutine
        return status, plain

    status, plain = asyncio.run(both())
    assert status.status == plain.status == "completed"

    hold(2)

    async def late():
        session = lab.run(names["slow"], background=True)
        try:
            await session.wait(0.05)
        finally:
            held_in(session, 2)
            session.kill("harness")

    with pytest.raises(TimeoutError, match=r"0\.05 s; it goes on in the background"):
        asyncio.run(late())


def test_an_interrupted_await_asks_for_a_pause(here, tmp_path):
    import asyncio

    names: dict = {}
    exec(SLOW, names)
    held = hold(2)
    session = here.go(tmp_path / "lab").run(names["slow"], background=True)

    async def interrupted():
        waiting = asyncio.ensure_future(_awaiting(session))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(interrupted())
    held.unlink()
    assert session.wait(120).status == "paused"
    assert [e.payload["reason"] for e in session.events() if e.type == "pause_requested"] == ["interrupted"]


async def _awaiting(session):
    return await session.wait()
