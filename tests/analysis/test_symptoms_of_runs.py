"""Each symptom in a session that really has it: the harness itself ran it, in a simulated world; and in one that has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentlab import analysis, crashpoints
from agentlab.analysis import Symptom
from agentlab.analysis.symptoms import CHECKS
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import Definition, Limits, StepSpec, ToolSpec
from agentlab.guard import GuardPolicy
from agentlab.harness.simulation import SimulatedWorld
from agentlab.models.scripted import ScriptedReply, call, handles, say
from agentlab.ports import Usage
from tests.harness.worlds import OBJECT, Outside, local, policy, task, tools, world

Policy = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    crashpoints.arm(None)


def ran(
    model: Policy = policy,
    definition: Definition | None = None,
    dies: tuple[CrashPoint, int] | None = None,
    extra: dict[str, Callable[..., Any]] | None = None,
) -> SimulatedWorld:
    """A session, driven until it rests; ``dies`` at a visit of a crash point on the way, then woken."""
    made = world(Outside(), model, extra)
    made.accept(definition or task(), "s")
    if dies is not None:
        point, left = dies

        def strike(reached: CrashPoint, when: str, detail: str) -> None:
            nonlocal left
            if reached is point and when == "before":
                left -= 1
                if left == 0:
                    raise SimulatedDeath(point.value)

        crashpoints.arm(strike)
        with pytest.raises(SimulatedDeath):
            made.run("s")
        crashpoints.arm(None)
    made.run("s")
    return made


def symptom(made: SimulatedWorld, name: str) -> Symptom:
    (check,) = [check for check in CHECKS if check.__name__ == name]
    found = check(analysis.analysed(made.store))
    assert found.name == name
    return found


def seqs(made: SimulatedWorld, kind: str, **payload: Any) -> tuple[int, ...]:
    events = made.store.open("s").replay(1)
    return tuple(
        e.seq for e in events if e.type == kind and all(e.payload.get(key) == value for key, value in payload.items())
    )


def free(**changes: Any) -> Definition:
    """A task without steps: the model does what it likes; no guard stops it."""
    fields: dict[str, Any] = {"steps": (), "validator": None, "guard": GuardPolicy(enabled=False)}
    return task(**{**fields, **changes})


def busy(times: int, tool: str = "add", **given: Any) -> Policy:
    """Calls a tool so often, each time with other numbers unless they are given, then is done."""

    def model(view: Any) -> Any:
        n = len(view.calls(tool))
        return [say(f"call {n}"), call(tool, **(given or {"a": n, "b": n}))] if n < times else say("done")

    return model


# --- drift -------------------------------------------------------------------------------------------------------------


def test_drift() -> None:
    topics = ["orbits of comets", "recipes for soup", "rules of cricket", "history of glass", "migration of geese"]

    def astray(view: Any) -> Any:
        n, far = len(view.calls("add")), len(view.calls("note"))
        if n < 4:
            return [say("the sales of May by region"), call("add", a=n, b=n)]
        return call("note", text=f"{topics[far % 5]} {far}") if far < 12 else say("done")

    def faithful(view: Any) -> Any:
        n = len(view.calls("note"))
        return call("note", text=f"sales of May by region, part {n}") if n < 12 else say("done")

    note = ToolSpec("note", "Write a note.", OBJECT, effect="pure", ref=local("note"))
    definition = free(goal="Sum up the sales of May by region.", tools=(*tools(), note), constraints=())
    extra = {"note": lambda text: len(text)}
    lost = ran(astray, definition, extra=extra)
    found = symptom(lost, "drift")
    assert found.verdict == "found" and found.evidence[0].seqs == seqs(lost, "drift_measured", restated=True) != ()
    assert symptom(ran(faithful, definition, extra=extra), "drift").verdict == "clear"
    assert symptom(ran(busy(0), definition), "drift").verdict == "unknown"


# --- effects -------------------------------------------------------------------------------------------------------------


def test_an_effect_that_nobody_can_verify() -> None:
    blind = tuple(replace(t, verify=None, honours_key=False) if t.name == "send" else t for t in tools())
    dies = (CrashPoint.EFFECT_REPLY, 1)
    doubtful = ran(definition=task(tools=blind), dies=dies)
    found = symptom(doubtful, "doubled_effects")
    assert found.verdict == "found" and found.evidence[0].seqs == seqs(doubtful, "effect_pending")
    assert "in doubt" in found.evidence[0].what
    assert symptom(ran(dies=dies), "doubled_effects").verdict == "clear"
    assert symptom(ran(busy(1), free()), "doubled_effects").verdict == "unknown"


# --- loops ---------------------------------------------------------------------------------------------------------------


def test_the_same_action_again_and_again() -> None:
    circling = ran(busy(99, a=1, b=2), free(guard=GuardPolicy()))
    found = symptom(circling, "repetition")
    assert found.verdict == "found" and set(found.evidence[0].seqs) == set(seqs(circling, "tool_requested", tool="add"))
    assert {e.seqs[0] for e in found.evidence[1:]} == set(seqs(circling, "guard_verdict")) != set()
    assert symptom(ran(busy(9), free()), "repetition").verdict == "clear"


# --- spending --------------------------------------------------------------------------------------------------------------


def test_tokens_are_limited_and_calls_are_not() -> None:
    tokens = Limits(input_tokens=10_000_000, rounds_per_step=None)
    found = symptom(ran(busy(25), free(limits=tokens)), "unlimited_calls")
    assert found.verdict == "found" and len(found.evidence[0].seqs) == 25
    both = replace(tokens, tool_calls=100)
    assert symptom(ran(busy(25), free(limits=both)), "unlimited_calls").verdict == "clear"
    assert symptom(ran(busy(25), free()), "unlimited_calls").verdict == "unknown"


def test_tools_that_cost_more_than_the_model() -> None:
    dear = tuple(replace(t, price_microusd=50_000) if t.name == "add" else t for t in tools())
    limits = Limits(input_tokens=10_000_000)
    found = symptom(ran(busy(3), free(tools=dear, limits=limits)), "unlimited_calls")
    assert found.verdict == "found" and "tools cost 0.1500 USD" in found.evidence[0].what


def test_a_budget_that_trips() -> None:
    tight = ran(busy(50), free(limits=Limits(input_tokens=9_000)))
    found = symptom(tight, "budget_trips")
    said = {seq for e in found.evidence for seq in e.seqs}
    assert found.verdict == "found" and set(seqs(tight, "session_paused", reason="budget")) <= said
    wide = Limits(input_tokens=10_000_000)
    assert symptom(ran(busy(9), free(limits=wide)), "budget_trips").verdict == "clear"
    assert symptom(ran(busy(9), free()), "budget_trips").verdict == "unknown"


def test_estimates_that_are_off() -> None:
    def hungry(view: Any) -> Any:
        n = len(view.calls("add"))
        content = [say("on"), call("add", a=n, b=n)] if n < 6 else [say("done")]
        return ScriptedReply(content, usage=Usage(input_tokens=9_000, output_tokens=10))

    found = symptom(ran(hungry, free()), "estimates_off")
    assert (
        found.verdict == "found" and "times the estimate" in found.evidence[0].what and len(found.evidence[0].seqs) == 5
    )
    assert symptom(ran(busy(6), free()), "estimates_off").verdict == "clear"


# --- recoveries ------------------------------------------------------------------------------------------------------------


@handles("statement")
def forgetful(view: Any) -> Any:
    return say("I have no idea where I am") if view.purpose == "statement" else policy(view)


def test_amnesia() -> None:
    dies = (CrashPoint.MODEL_REPLY, 3)
    lost = ran(forgetful, dies=dies)
    found = symptom(lost, "amnesia")
    assert found.verdict == "found" and found.evidence[0].seqs[0] in seqs(lost, "statement_checked", passed=False)
    assert symptom(ran(dies=dies), "amnesia").verdict == "clear"
    assert symptom(ran(), "amnesia").verdict == "unknown"
    assert symptom(ran(definition=task(strategy="nothing"), dies=dies), "amnesia").verdict == "unknown"


def test_what_was_done_is_asked_for_again() -> None:
    def repeating(view: Any) -> Any:
        n = len(view.calls("add"))
        if n == 4:
            return [say("once more"), call("add", a=0, b=0)]
        return [say("on"), call("add", a=n, b=n)] if n < 6 else say("done")

    again = ran(repeating, free(strategy="nothing"), dies=(CrashPoint.MODEL_REPLY, 5))
    found = symptom(again, "amnesia")
    assert found.verdict == "found" and "asked for again" in found.evidence[0].what
    assert found.evidence[0].seqs[0] in seqs(again, "tool_requested", tool="add")


def test_history_pasted_back() -> None:
    dies = (CrashPoint.MODEL_REPLY, 8)
    pasted = symptom(ran(busy(10), free(strategy="nothing"), dies=dies), "stuffed_history")
    assert pasted.verdict == "found" and "strategy nothing" in pasted.evidence[0].what
    assert len(pasted.evidence[0].seqs) == 2
    sound = symptom(ran(busy(10), free(), dies=dies), "stuffed_history")
    assert sound.verdict == "clear"
    assert symptom(ran(busy(10), free()), "stuffed_history").verdict == "unknown"


# --- steps and tools -------------------------------------------------------------------------------------------------------


def broken(a: int, b: int) -> int:
    raise RuntimeError("it never works")


def test_a_tool_and_a_step_that_fail() -> None:
    definition = task(steps=(StepSpec("add", tool="add"),), validator=None, guard=GuardPolicy(enabled=False))

    def stubborn(view: Any) -> Any:
        n = len(view.calls("add"))
        return [say("again"), call("add", a=n, b=n)] if n < 4 else say("I give up")

    failing = ran(stubborn, definition, extra={"add": broken})
    tool, step = symptom(failing, "failing_tool"), symptom(failing, "failing_step")
    errors = seqs(failing, "tool_error", tool="add")
    assert tool.verdict == step.verdict == "found" and set(tool.evidence[0].seqs) == set(errors) == set(
        step.evidence[0].seqs
    )
    assert "step 1 (add)" in step.evidence[0].what
    sound = ran()
    assert symptom(sound, "failing_tool").verdict == symptom(sound, "failing_step").verdict == "clear"


def test_the_slowest_step() -> None:
    made = world(Outside(), policy, {"add": lambda a, b: (made.clock.sleep(5.0), a + b)[1]})
    made.accept(task(), "s")
    made.run("s")
    found = symptom(made, "slowest_step")
    assert found.verdict == "told" and "step 1 (add) took 5" in found.evidence[0].what
    assert found.evidence[0].seqs == (seqs(made, "step_started")[0], seqs(made, "step_completed")[0])
    assert symptom(ran(busy(1), free()), "slowest_step").verdict == "unknown"


def test_a_sound_run_has_no_symptom() -> None:
    assert [s.name for s in analysis.diagnose(ran().store).found] == []
