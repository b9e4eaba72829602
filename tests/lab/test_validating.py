"""What can not run is refused where it was written, in one line, before anything is in the lab."""

import math

import pytest

import agentlab as al
from agentlab.errors import BadDefinition, UnknownName
from agentlab.lab import Lab
from tests.e2e import tasks

BAD = {
    "params that JSON can not carry": {"params": {"a": object()}},
    "NaN as a parameter": {"params": {"a": math.nan}},
    "a limit in words": {"limits": {"max_turns": "seven"}},
    "a negative limit": {"limits": {"max_turns": -1}},
    "zero attempts": {"limits": {"attempts": 0}},
    "half a turn": {"limits": {"max_turns": 1.5}},
    "a limit of a tool in words": {"limits": {"tool_calls_by_tool": {"send": "x"}}},
    "a constraint that is a number": {"constraints": (5,)},
    "no model's name": {"model": "  "},
    "a timeout that is no number": {"tools": [al.tool(tasks.measure, timeout_s=math.nan)], "steps": []},
    "half a retry": {"tools": [al.tool(tasks.measure, retries=1.5)], "steps": []},
    "a validator with effects outside": {"validator": al.validator(tasks.one_line, effect="external")},
    "two files in one place": {"files": {"a": b"1", "./a": b"2"}},
    "NUL in a file's path": {"files": {"a\0b": b"x"}},
    "a goal that is empty": {"goal": " "},
    "one number where the guard wants two": {"guard": {"same": [3]}},
    "a word where the guard wants two numbers": {"guard": {"fails": "x"}},
    "half a call until a nudge": {"guard": {"same": [1.5, 2]}},
    "a guard that looks back at nothing": {"guard": {"window": 0}},
    "a guard switched off by a word": {"guard": {"enabled": "no"}},
    "no list of rules": {"guard": {"rules": None}},
    "volatile arguments as one text": {"guard": {"volatile": "why"}},
    "a guard that is a number": {"guard": 5},
    "a context that is a number": {"context": 5},
    "a budget that is a list": {"budget": [1]},
    "step parameters that JSON can not carry": {
        "steps": [al.step("write", tool="write_line", parameters={"a": object()})]
    },
}


@pytest.mark.parametrize("what", BAD)
def test_what_can_not_run_is_refused_at_once(tmp_path, what):
    lab = Lab(tmp_path / "lab")
    fields = dict(BAD[what])
    with pytest.raises(al.UserError) as caught:
        lab.create(tasks.task("write", **fields))
    message = str(caught.value)
    assert "\n" not in message and len(message) < 400
    assert lab.sessions() == [], "nothing is half written"


@pytest.mark.parametrize("limit", ["tool_calls_by_tool", "per_minute_by_tool"])
def test_a_limit_of_a_tool_that_the_task_does_not_have_is_refused(tmp_path, limit):
    lab = Lab(tmp_path / "lab")
    with pytest.raises(UnknownName, match="did you mean write_line"):
        lab.create(tasks.task("write"), limits={limit: {"writ_line": 2}})
    assert lab.sessions() == []
    lab.create(tasks.task("write"), limits={limit: {"write_line": 2}})
    lab.create(tasks.task("write", limits={"per_minute_by_tool": {"disk": 2}}, budget={"services": {"disk": ["x"]}}))


def test_limits_of_a_task_are_written_as_those_of_a_run(tmp_path):
    lab = Lab(tmp_path / "lab")
    task = tasks.task(
        "measure", "write", limits={"tokens": "20k", "cost": 2.5, "tool:measure": 4, "tool:write_line": 3}
    )
    plain = lab.create(task).definition.limits
    assert (plain.tokens, plain.cost_microusd) == (20_000, 2_500_000)
    changed = lab.create(task, limits={"tool:measure": "9", "tokens": None}).definition.limits
    assert changed.tool_calls_by_tool == {"measure": 9, "write_line": 3}, "the other tool's limit stays"
    assert (changed.tokens, changed.cost_microusd) == (None, 2_500_000)
    with pytest.raises(UnknownName, match="tool:measure"):
        lab.create(task, limits={"measure": 2})


@pytest.mark.parametrize(
    ("dimension", "limit"),
    [("tokns", 5), ("tool_calls", 0), ("tool_calls", -1), ("tool_calls", "x"), ("tool_calls", 1.5), ("tokens", None)],
)
def test_a_new_limit_that_makes_no_sense_does_not_reach_the_log(tmp_path, dimension, limit):
    session = Lab(tmp_path / "lab").create(tasks.task("write"))
    before = session.events()
    with pytest.raises((UnknownName, BadDefinition), match="tokens|whole number"):
        session.extend(dimension, limit)
    assert session.events() == before
    session.extend("cost", 7)
    assert session.state.budget.limits["cost_microusd"] == 7


def test_the_guard_says_what_it_can_look_at(tmp_path):
    session = Lab(tmp_path / "lab").create(tasks.task("write"))
    for source in (None, 5, session.id, [1, 2], {}):
        with pytest.raises(BadDefinition, match="session"):
            al.guard_findings(source)
    assert al.guard_findings(session) == al.guard_findings(iter(session.events())) == []
