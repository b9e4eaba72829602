"""What can not run is refused where it was written, in one line, before anything is in the lab."""

import math

import pytest

import agentlab as al
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
