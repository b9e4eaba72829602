"""``%agent compare`` and ``agentlab compare``: options, completion, help, what is printed."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import agentlab as al
from agentlab.cli import main
from agentlab.comparing.options import failure_process, seconds
from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.failures import Bursty, CrashLoop, Deadline, Exponential, Times, Weibull
from agentlab.notebook import place
from agentlab.notebook.completion import complete
from agentlab.notebook.parsing import dispatch


@pytest.mark.parametrize(
    ("text", "value"), [("60", 60.0), ("60s", 60.0), ("5m", 300.0), ("1.5h", 5400.0), ("250ms", 0.25), ("1d", 86400.0)]
)
def test_times_are_read_with_their_units(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("mtbf", "faults", "process"),
    [
        (None, None, None),
        ("60s", None, Exponential(60.0)),
        ("60s", "weibull:shape=0.7", Weibull(60.0, 0.7)),
        ("60s", "weibull:0.7", Weibull(60.0, 0.7)),
        ("10m", "bursty:burst_mean_s=20s", Bursty(600.0, burst_mean_s=20.0)),
        (None, "deadline:60s", Deadline(60.0)),
        (None, "crash-loop:20", CrashLoop(20)),
        (None, "crash_loop:20,kills=2", CrashLoop(20, 2)),
        (None, "poisson:5m", Exponential(300.0)),
    ],
)
def test_failure_processes_are_read(mtbf, faults, process):
    assert failure_process(mtbf, faults) == process


def test_crash_times_are_read_from_a_file(tmp_path):
    (tmp_path / "times").write_text("1.5\n# later\n4\n")
    assert failure_process(None, f"times:{tmp_path / 'times'}") == Times((1.5, 4.0))


@pytest.mark.parametrize(
    "given", [("60x", None), (None, "weibull:0.7"), (None, "crash_loop:soon"), (None, "times:/nowhere")]
)
def test_what_can_not_be_read_is_told(given):
    with pytest.raises(BadDefinition):
        failure_process(*given)


def test_a_number_that_is_missing_is_named():
    with pytest.raises(BadDefinition, match="weibull needs a value for mtbf"):
        failure_process(None, "weibull:0.7")
    with pytest.raises(BadDefinition, match="crash times"):
        Times(("soon",))


def test_the_command_line_refuses_a_parameter_that_the_task_does_not_have(tmp_path, capsys):
    lab = tmp_path / "lab"
    assert main(["compare", "sales_report", "--seeds", "1", "--param", "receiver=x", "--lab", str(lab)]) == 2
    assert "receiver_url" in capsys.readouterr().err


def test_a_misspelt_process_gets_the_nearest():
    with pytest.raises(UnknownName, match="weibull"):
        failure_process(None, "weibul")


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("%agent com", {"compare"}),
        ("%agent compare sal", {"sales_report"}),
        ("%agent compare sales_report --po", {"--policy"}),
        ("%agent compare sales_report --policy mile", {"milestones"}),
        ("%agent compare sales_report --mode ", {"simulated", "real", "what-if"}),
        ("%agent compare sales_report --scheme ", {"hybrid", "events", "snapshot"}),
        ("%agent compare sales_report --faults wei", {"weibull:"}),
        ("%agent compare sales_report --target ", {"both", "harness", "sandbox"}),
        ("%agent help comp", {"compare"}),
    ],
)
def test_the_line_is_completed(line, some):
    assert some <= set(complete(line, {}))


@pytest.fixture
def here(tmp_path, monkeypatch):
    fresh = place.Place()
    monkeypatch.setattr(place, "_current", fresh)
    monkeypatch.setenv("AGENTLAB_DISPLAY", "plain")
    monkeypatch.chdir(tmp_path)
    yield fresh
    for lab in fresh._labs.values():
        lab.close()


def test_a_line_of_a_notebook_compares_and_shows_itself(here):
    found = dispatch("compare sales_report --policy every=1,20 --policy daly --mtbf 5s --seeds 3 --workers 1", None, {})
    assert list(dict.fromkeys(found.frame.condition)) == ["every=1", "every=20", "daly"] and len(found.frame) == 9
    assert found.session_id in here.lab.store.sessions() and "3 seeds" in found.text()
    assert "%agent compare" in str(dispatch("help compare", None, {}))


def test_the_command_line_prints_rows_and_summary_as_one_json_object(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [
        "compare",
        "sales_report",
        "--policy",
        "every=5",
        "--policy",
        "never",
        "--mtbf",
        "5s",
        "--seeds",
        "2",
        "--workers",
        "1",
    ]
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == 4 and found["rows"][0]["policy"] == "every=5" and found["rows"][0]["total_s"] > 0
    assert found["summary"]["baseline"] == "every=5" and len(found["summary"]["table"]) == 18
    assert "text" in found["summary"]["recommendation"]
    for wrong, told in (
        (["--policy", "nevr"], "never"),
        (["--workers", "-2"], "1 or more"),
        (["--name", "../x"], "path"),
    ):
        assert main(["compare", "sales_report", *wrong]) == 2
        assert told in capsys.readouterr().err


def begin(number):
    """A run of a sweep that begins a session in the very lab that keeps the sweep."""
    return al.Lab("lab").create("sea_table", session_id=f"swept-{number}")


def test_the_session_in_hand_is_one_that_a_person_began(here):
    """In a new kernel, with no session in hand: not that of a comparison, of a sweep, or one that a sweep's run began."""
    with pytest.raises(UserError, match="there is no session here yet"):
        dispatch("status", None, {})
    with ThreadPoolExecutor(1) as one:
        swept = al.sweep({"number": [1, 2]}, begin, lab=here.lab, executor=one, progress=False)
    assert swept.failed == 0 and {"swept-1", "swept-2"} < set(here.lab.store.sessions())
    with pytest.raises(UserError, match=f"that a person began.*name one of 3 sessions: {swept.session_id}, swept-1"):
        dispatch("status", None, {})
    here.lab.create("sales_report", session_id="mine")
    with ThreadPoolExecutor(1) as one:
        al.sweep({"number": [3]}, begin, lab=here.lab, executor=one, progress=False)
    here.lab.create("sales_report", session_id="damaged")
    commit = next(here.lab.path.glob("sessions/*damaged*/commits/*"))
    commit.chmod(0o644)
    commit.write_bytes(b"torn")
    here.session_or_none = None
    here.lab._sessions.clear()
    assert here.session().id == "mine"
    assert here.session("swept-3").id == "swept-3" == here.session().id, "named, it comes into hand"
    fork = here.session("swept-1").fork(session_id="forked")
    here.session_or_none = None
    assert here.session().id == fork.id, "a fork is a person's"
