"""Every kind of fault strikes real processes, and the session ends as if nothing had happened, or says what did."""

from __future__ import annotations

import time

import pytest

from agentlab.errors import UserError
from agentlab.explorer.real import compared, real
from agentlab.explorer.schedule import parse_schedule
from agentlab.faults.kinds import KINDS
from agentlab.lab.faulting import armed_in
from tests.explorer import tasks as small

from . import tasks


def completed(made):
    assert made.session.status().status == "completed", made.session.locate()
    made.session.verify()
    assert made.delivered() == ["f1", "f2", "f3"], "each message once"
    return made


def test_model_faults(ran):
    # Each strikes a fresh request: the wait before a retry grows with failures in a row.
    kinds = ["429=0.3", "500", "529", "cut=150", "timeout=0.2", "malformed", "unknown_tool", "empty"]
    words = (
        ",".join(f"model:{kind}{'' if index == 0 else '#2'}" for index, kind in enumerate(kinds)) + ",model:refusal#2"
    )
    made = ran([words]).go()
    assert made.session.status().status == "paused" and "refused" in str(made.session.locate())
    assert made.struck() == words.split(",")
    errors = {e.error_type: e for e in made.kinds("model_error")}
    assert set(errors) == {
        "rate_limited",
        "server",
        "overloaded",
        "connection",
        "timeout",
        "empty",
        "refused",
        "malformed",
    }
    limited = errors["rate_limited"].payload
    assert limited["retry_after_s"] == 0.3 <= limited["delay_s"] and limited["status"] == 429
    refusals = [e.payload for e in made.kinds("tool_error")]
    assert any("there is no tool 'no_such_tool'" in p["message"] for p in refusals)
    hit = {row.ref for row in made.session.faults() if row.state == "struck"}
    assert {e.payload["request_id"] for e in errors.values()} <= hit, "an injected error is told from a real one"
    # It is woken, ends, and the simulation says the same of all of it, event by event.
    found = real(made.session, 3)
    assert compared(tasks.ROUNDS, parse_schedule(words.split(",")), found) == []
    completed(made)


def test_tool_faults(ran):
    faults = [
        # pure: the first tries of the first three calls, then results that are wrong
        "tool(measure):exception,tool(measure):http500,tool(measure):timeout=0.3,tool(measure):lost_reply#2,"
        "tool(measure):false_failure#2,tool(measure):corrupt#2,tool(measure):empty,tool(measure):slow=0.3",
        # in the sandbox
        "tool(write):exception,tool(write):timeout=0.5,tool(write):lost_reply#2,tool(write):corrupt#2,tool(write):slow=0.1",
        # outside: what happened and what did not must be found out
        "tool(send):lost_reply,tool(send):false_failure,tool(send):exception,tool(send):slow=0.1",
    ]
    made = completed(ran(faults).go())
    assert len(made.struck()) == 17
    retried = {str(e.error_type) for e in made.kinds("retry_scheduled")}
    assert {"InjectedError", "HTTPError", "TimeoutError", "ToolHostDied"} <= retried
    results = [e.payload["output"] for e in made.kinds("tool_result") if e.tool_name == "measure"]
    assert {"length": -1} in results and {} in results and {"length": 2} in results
    verified = [e.payload["outcome"] for e in made.kinds("effect_verified")]
    assert verified == ["completed", "completed", "not_done"], "done but unheard, done but denied, not done"
    assert [e.payload["try"] for e in made.kinds("effect_pending")] == [1, 1, 1, 2]


def test_storage_faults_a_second_harness_and_a_wrong_clock(ran):
    faults = [
        "disk:full@event.append#8,disk:eio@tool_result,disk:emfile@blob.put,disk:readonly@event.append#9,"
        "disk:slow=0.05@event.append#6,second:harness@tool_result",
        "clock:back=3600@tool_result#2,clock:forward=7200@model_response",
    ]
    made = completed(ran(faults, policy="every=6").go())
    assert len(made.struck()) == 8
    reasons = [e.payload["reason"] for e in made.kinds("harness_woken")]
    assert reasons.count("crash") == 4 and reasons.count("takeover") == 1
    times = [e.ts for e in made.events]
    jumps = [round((after - before) / 1e6) for before, after in zip(times, times[1:], strict=False)]
    assert any(jump < -3500 for jump in jumps) and any(jump > 7100 for jump in jumps)
    fenced = (made.session.lab.path / "run").glob("*.log")
    said = "".join(path.read_text() for path in fenced)
    for word in ("No space left", "Input/output error", "Too many open files", "Read-only file system", "stops here"):
        assert word in said, said


def test_deaths_by_signal_time_and_process(ran):
    faults = ["term:harness@tool_result,harness@model_response#2", "int:harness@model_request#3", "sandbox@sandbox.spawn:after",
              "harness@after=0.01s"]  # fmt: skip
    made = completed(ran(faults).go())
    assert sorted(made.struck()) == sorted(",".join(faults).split(","))
    ends = [(e.payload.get("signal"), e.payload.get("exit_code")) for e in made.kinds("harness_died")]
    assert (9, None) in ends and (None, 143) in ends


def test_a_retry_storm_and_the_watchdogs_kill(ran):
    made = ran(["retry_storm"], task=small.SMALL)
    made.session.start(restart=False)
    deadline = time.monotonic() + 240
    while made.session.status().status != "crashed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found = made.session.locate()
    assert found.condition == "harness_dead" and found.done.startswith("step measure (event ")
    assert [link.split()[3].rstrip(":") for link in found.chain] == ["timeout", "timeout", "timeout", "overloaded"]
    assert f"since {found.done}:" in str(found)
    errors = made.kinds("model_error")
    delays = [e.payload["delay_s"] for e in errors]
    assert delays == sorted(delays) and len({round(d / 2**n, 3) for n, d in enumerate(delays)}) > 1, (
        "growing, with jitter"
    )
    limits = (100, 200, 400)
    assert all(e.duration_ms >= limit for e, limit in zip(errors, limits, strict=False)), (
        "each limit was really waited for"
    )
    made.session.wake(timeout_s=240)
    assert made.session.status().status == "completed" and made.delivered() == ["done"]
    assert made.struck()[-1] == "term:harness@model_error:after"


def test_a_session_has_a_limit_of_retries(ran):
    made = ran(["model:529*3"], task=small.SMALL, limits={"session_retries": 1}).go()
    assert made.session.status().status == "paused"
    assert [e.payload["will_retry"] for e in made.kinds("model_error")] == [True, False]
    assert "limit of 1 retries is used up" in str(made.session.locate())


def test_a_running_session_is_armed_by_hand(ran, lab):
    made = ran([], task=small.SMALL)
    made.session.step()
    made.session.inject(["model:500", "harness@tool_result"])
    assert [row.state for row in made.session.faults()] == ["armed", "armed"]
    made.session.wake(timeout_s=240)
    assert made.session.status().status == "completed"
    rows = made.session.faults()
    assert [row.state for row in rows] == ["struck", "struck"] and rows[0].hit.startswith("model_error ")
    again = lab.create(small.SMALL, faults=armed_in(made.session.replay()), params={"outbox": str(made.box)})
    assert [row.words for row in again.faults()] == [row.words for row in rows], "what is in the log can be run again"
    with pytest.raises(UserError, match="has ended"):
        made.session.inject(["model:500"])


@pytest.mark.parametrize("service", ["model", "tool", "disk"])
def test_every_kind_of_the_vocabulary_is_tried_here(service):
    from pathlib import Path

    text = Path(__file__).read_text()
    missing = [kind for kind in KINDS[service] if f"{service}:{kind}" not in text and f'"{kind}' not in text
               and f"(measure):{kind}" not in text]  # fmt: skip
    assert missing == []
