"""The four steps of a recovery: their order and durations, the statement, a person's word, the tax, the strategies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import Limits, PolicySpec, StepSpec, ToolSpec
from agentlab.events import Draft
from agentlab.harness.loop import run as run_loop
from agentlab.lab.costs import crash_costs, total_tax
from agentlab.lab.inputs import append_input
from agentlab.lab.status import as_woken
from agentlab.models.pairing import check_messages
from agentlab.models.scripted import ScriptedModel, ScriptedReply, call, handles, say
from agentlab.session.commands import StartRecovery
from agentlab.session.decide import Run, decide
from agentlab.session.tax import Tax

from .worlds import OBJECT, Outside, local, policy, task, tools, world


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def die(made, at, visit, when="before", session="s"):
    """Drive the session until its harness dies at a visit of a crash point."""
    visits = 0

    def strike(point, moment, detail):
        nonlocal visits
        if point is at and moment == when:
            visits += 1
            if visits == visit:
                raise SimulatedDeath(f"{at.value} {when} {visit}")

    crashpoints.arm(strike)
    with pytest.raises(SimulatedDeath):
        made.run(session)
    crashpoints.arm(None)


def crashed(model=policy, definition=None, at=CrashPoint.MODEL_REPLY, visit=3, extra=None):
    outside = Outside()
    made = world(outside, model, extra)
    made.accept(definition or task(), "s")
    die(made, at, visit)
    return made, outside


def events_of(made):
    return list(made.store.open("s").replay(1))


def of_kind(made, kind):
    return [e for e in events_of(made) if e.type == kind]


def test_each_of_the_four_steps_is_an_event_with_its_duration_in_order():
    made, _ = crashed()
    assert made.run("s") == "ended"
    steps = of_kind(made, "recovery_step")
    assert [e.payload["step"] for e in steps] == ["load", "rebuild", "verify", "statement"]
    assert all(e.duration_ms is not None and e.duration_ms >= 0 for e in steps)
    (started,), (completed,) = of_kind(made, "recovery_started"), of_kind(made, "recovery_completed")
    assert started.seq < steps[0].seq < steps[-1].seq < completed.seq
    assert completed.payload["strategy"] == "statement" and completed.payload["scheme"] == "hybrid"
    first_act = next(e for e in events_of(made) if e.seq > started.seq and e.payload.get("purpose") == "act")
    assert first_act.seq > completed.seq, "the model acts only after the recovery"


def wrong_then_right(view):
    if view.purpose == "statement":
        told = "does not agree" in view.text
        return (
            say('{"completed_steps": ["send"], "next_step": null, "effects_done": ["x"]}') if not told else right(view)
        )
    return policy(view)


def right(view):
    from agentlab.models.scripted import statement

    return statement(view)


def always_wrong(view):
    return say("I am nearly done") if view.purpose == "statement" else policy(view)


wrong_then_right = handles("statement")(wrong_then_right)
always_wrong = handles("statement")(always_wrong)


def test_a_wrong_statement_is_corrected_once_with_what_the_log_says():
    made, outside = crashed(wrong_then_right)
    assert made.run("s") == "ended"
    checks = [e.payload for e in of_kind(made, "statement_checked")]
    assert [c["passed"] for c in checks] == [False, True]
    assert any("effects_done" in line for line in checks[0]["corrections"]) and checks[0]["expected"]["next_step"]
    assert len(outside.delivered) == 1


def test_a_statement_that_stays_wrong_pauses_for_a_person_and_nothing_has_run():
    made, outside = crashed(always_wrong)
    assert made.run("s") == "paused"
    paused = of_kind(made, "session_paused")[-1]
    assert paused.payload["reason"] == "statement"
    assert [e.payload["passed"] for e in of_kind(made, "statement_checked")] == [False, False]
    woken = of_kind(made, "harness_woken")[-1]
    ran = [e.type for e in events_of(made) if e.seq > woken.seq and e.type in ("tool_result", "effect_pending")]
    assert ran == [] and outside.requests == 0
    made.model_of = lambda d: ScriptedModel(policy, d.model, clock=made.clock)  # somebody takes a better model
    resume = Draft("resume_requested", {"id": "r1"})
    append_input(made.store.open("s"), (resume,), made.clock, made.ids)
    assert made.run("s") == "ended" and len(outside.delivered) == 1


def test_a_tool_call_in_the_place_of_a_statement_runs_nothing():
    @handles("statement")
    def eager(view):
        if view.purpose == "statement":
            return ScriptedReply([say("on it"), call("send", message="again")])
        return policy(view)

    made, outside = crashed(eager)
    assert made.run("s") == "paused" and outside.requests == 0


def test_with_confirm_a_person_is_asked_too():
    made, outside = crashed()
    log = made.store.open("s")
    append_input(log, (Draft("resume_requested", {"id": "r1", "confirm": True}),), made.clock, made.ids)
    assert made.run("s") == "waiting"
    question = of_kind(made, "question_asked")[-1]
    assert question.payload["kind"] == "recovery" and "May it go on?" in question.payload["question"]
    assert of_kind(made, "statement_checked") and not of_kind(made, "recovery_completed")
    append_input(log, (Draft("approval_denied", {"id": "a0", "question_seq": question.seq}),), made.clock, made.ids)
    assert made.run("s") == "paused"
    assert of_kind(made, "session_paused")[-1].payload["reason"] == "requested"
    append_input(log, (Draft("resume_requested", {"id": "r2"}),), made.clock, made.ids)
    assert made.run("s") == "waiting", "a denial does not end the question"
    question = of_kind(made, "question_asked")[-1]
    append_input(log, (Draft("approval_given", {"id": "a1", "question_seq": question.seq}),), made.clock, made.ids)
    assert made.run("s") == "ended" and len(outside.delivered) == 1
    assert len(of_kind(made, "recovery_completed")) == 1


def test_the_plan_of_a_recovery_is_pure_and_says_every_step():
    made, _ = crashed(at=CrashPoint.EFFECT_REPLY, visit=1)
    from agentlab.harness.wake import load

    state = load(made.store.open("s"), made.store.blobs).state
    before = events_of(made)
    run = Run.of(task())
    woken = as_woken(replace(state, process={}), made.clock.now_us())  # no process of this machine drives it
    first, second = decide(woken, run), decide(woken, run)
    assert first == second and isinstance(first, StartRecovery)
    assert [line.split(":")[0] for line in first.plan] == ["load", "sandbox", "rebuild", "verify", "statement", "then"]
    assert "#" in first.plan[3], "the key of the effect that is pending"
    assert events_of(made) == before
    assert f"from the checkpoint at {state.checkpoint.seq}, then" in first.plan[0]
    folded = decide(woken, Run.of(task(scheme="events")))
    assert folded.plan[0] == f"load: state at event 0 (no checkpoint), then {state.seq} events"
    snapshot = decide(woken, Run.of(task(scheme="snapshot")))
    assert any(line.startswith("go back: to the checkpoint at") for line in snapshot.plan)


def test_carrying_a_recovery_out_in_pieces_equals_once():
    """The harness dies at every event of its own recovery, one death after the other; the plan ends where it would."""
    undisturbed, _ = crashed(at=CrashPoint.EFFECT_REPLY, visit=1)
    assert undisturbed.run("s") == "ended"
    made, outside = crashed(at=CrashPoint.EFFECT_REPLY, visit=1)
    for allowed in range(1, 60):
        commits = 0

        def strike(point, when, detail, allowed=allowed):
            nonlocal commits
            if point is CrashPoint.COMMIT and when == "after" and not of_kind(made, "recovery_completed"):
                commits += 1
                if commits == allowed:
                    raise SimulatedDeath("after one more commit")

        crashpoints.arm(strike)
        try:
            assert made.run("s") == "ended"
            break
        except SimulatedDeath:
            continue
        finally:
            crashpoints.arm(None)
    assert len(of_kind(made, "harness_woken")) > 3 and len(of_kind(made, "recovery_completed")) == 1
    assert len(outside.delivered) == 1 and outside.requests == 1
    assert of_kind(made, "session_ended")[0].payload["outcome"] == "completed"


def test_the_tax_of_a_crash_is_kept_apart_from_the_work():
    made, _ = crashed(visit=3)
    made.clock.sleep(7)
    assert made.run("s") == "ended"
    (completed,) = of_kind(made, "recovery_completed")
    tax = completed.payload["tax"]
    statement = [e for e in of_kind(made, "model_response") if e.payload["purpose"] == "statement"]
    assert tax["model_calls"] == len(statement) == 1
    assert tax["tokens"] == statement[0].input_tokens + statement[0].output_tokens
    assert tax["seconds"] >= 7, "the time in which nothing drove it is part of what the crash cost"
    assert tax["at_risk_tokens"] > 0, "the third model call was cut"
    (cost,) = crash_costs(events_of(made))
    assert cost.tax.tokens == tax["tokens"] and cost.tax.at_risk_tokens == tax["at_risk_tokens"]
    assert cost.to_json()["tax"]["bytes"] == 0
    state_used = of_kind(made, "session_ended")[0].payload["totals"]
    useful = [e for e in of_kind(made, "model_response") if e.payload["purpose"] == "act"]
    assert state_used["input_tokens"] + state_used["output_tokens"] - tax["tokens"] == sum(
        e.input_tokens + e.output_tokens for e in useful
    )


def test_bytes_put_back_into_a_new_workspace_are_part_of_the_tax():
    made, _ = crashed(definition=task(policy=PolicySpec("every_events", {"n": 4})), visit=3)
    for name in made.sandboxes.alive():
        made.sandboxes.kill(name)
    assert made.run("s") == "ended"
    restored = of_kind(made, "sandbox_restored")[-1]
    assert restored.payload["bytes"] == len("one line\n")
    harness, sandbox = crash_costs(events_of(made))
    again = len(of_kind(made, "execution_rerun"))
    assert (harness.target, harness.tax.bytes, harness.commands_again) == ("harness", len("one line\n"), again)
    assert (sandbox.target, sandbox.commands_again, sandbox.tokens, sandbox.tax) == ("sandbox", 0, 0, Tax())
    assert sandbox.seconds <= harness.seconds and total_tax([harness, sandbox]) == harness.tax, "nothing counts twice"


# --- what the model is told ------------------------------------------------------------------------------------------


def asked_of(made):
    """Requests that the model gets from now on, checked by the rules of the Messages API."""
    requests = []
    original = made.model_of

    def watching(definition):
        model = original(definition)
        complete = model.complete

        def checked(request, on_text=None):
            check_messages(request.messages, ask=True)
            requests.append(request)
            return complete(request, on_text)

        model.complete = checked
        return model

    made.model_of = watching
    return requests


def text_of(request):
    return str(request.messages)


@pytest.mark.parametrize("strategy", ["statement", "synthetic_error", "nothing"])
def test_a_strategy_is_recorded_and_differs_in_what_the_model_is_told(strategy):
    made, outside = crashed(definition=task(strategy=strategy), at=CrashPoint.TOOL_REPLY, visit=1)
    requests = asked_of(made)
    assert made.run("s") == "ended"
    (completed,) = of_kind(made, "recovery_completed")
    assert completed.payload["strategy"] == strategy and len(outside.delivered) == 1
    steps = [(e.payload["step"], e.payload["outcome"]) for e in of_kind(made, "recovery_step")]
    assert [step for step, _ in steps] == ["load", "rebuild", "verify", "statement"]
    asked = [r.purpose for r in requests]
    interrupted = [e for e in of_kind(made, "tool_error") if e.payload["kind"] == "interrupted"]
    if strategy == "statement":
        assert asked[0] == "statement" and "You were interrupted" in text_of(requests[1]) and not interrupted
    else:
        assert "statement" not in asked and steps[-1] == ("statement", "skipped")
        assert "You were interrupted" not in text_of(requests[0])
        assert bool(interrupted) == (strategy == "synthetic_error")
    if strategy == "synthetic_error":
        assert "its outcome is unknown" in text_of(requests[0])
    (cost,) = crash_costs(events_of(made))
    assert cost.calls_repeated == 0, "the call that was cut had no result yet"


def test_strategies_are_compared_by_repeated_calls():
    """A model that goes by its context alone: told nothing but an error, it asks for the effect again."""
    steps = (StepSpec("send", tool="send", kind="downstream"), StepSpec("add", tool="add"))
    repeated = {}
    for strategy in ("statement", "synthetic_error", "nothing"):
        outside = Outside()
        made = world(outside)
        made.accept(task(steps=steps, validator=None, strategy=strategy), "s")
        die(made, CrashPoint.TOOL_REPLY, 1)
        assert made.run("s") == "ended"
        (cost,) = crash_costs(events_of(made))
        asked = [e.input_hash for e in of_kind(made, "tool_requested")]
        repeated[strategy] = len(asked) - len(set(asked))
        assert len(outside.delivered) == 1, "whatever the model is told, the effect happens once"
    assert repeated == {"statement": 0, "synthetic_error": 1, "nothing": 0}


# --- sandboxes -------------------------------------------------------------------------------------------------------


def test_after_a_sandbox_loss_the_model_is_told_what_differs_and_what_was_not_run_again():
    times = iter(range(100))
    spec = ToolSpec("draw", "Draw a number.", OBJECT, effect="sandboxed", ref=local("draw"))
    once = ToolSpec("pay", "Not repeatable.", OBJECT, effect="sandboxed", ref=local("pay"), repeatable=False)
    seen = []

    def model(view):
        if view.purpose == "act":
            seen.append(str(view.request.messages))
        step = view.status.get("step")
        return [call(step)] if step in ("draw", "pay", "add") else [say("adding again"), call("add", a=1)]

    steps = (StepSpec("draw", tool="draw"), StepSpec("pay", tool="pay"), StepSpec("add", tool="add"))
    steps += (StepSpec("then", tool="add"),)
    definition = task(steps=steps, tools=(spec, once, *tools()), validator=None, policy=PolicySpec("never"))
    made = world(
        Outside(), model, {"draw": lambda: {"number": next(times)}, "pay": lambda: "paid", "add": lambda a=0: 3}
    )
    made.accept(definition, "s")
    die(made, CrashPoint.TOOL_REPLY, 1)
    for name in made.sandboxes.alive():
        made.sandboxes.kill(name)
    made.sandboxes._runner._known.clear()
    assert made.run("s") == "ended"
    restored = of_kind(made, "sandbox_restored")[-1].payload
    (differs,) = restored["differs"]
    assert differs["tool"] == "draw" and differs["recorded"] == "number=0" and differs["now"] == "number=1"
    assert len(restored["not_rerun"]) == 1 and len(restored["rerun"]) == 1
    told = next(text for text in seen if "After a sandbox loss" in text)
    assert "Recorded: number=0. Now: number=1." in told and "was not run again: check where it stands" in told


# --- for ever --------------------------------------------------------------------------------------------------------


def test_a_session_that_gets_on_a_little_and_dies_each_time_pauses_in_the_end_and_says_so():
    made = world(Outside())
    made.accept(task(limits=Limits(deaths_per_step=5)), "s")

    def strike(point, when, detail):
        if point is CrashPoint.TOOL_REPLY and when == "before":
            raise SimulatedDeath("each time that a tool has run")

    deaths = 0
    for _ in range(30):
        crashpoints.arm(strike)
        try:
            why = made.run("s")
            break
        except SimulatedDeath:
            deaths += 1
        finally:
            crashpoints.arm(None)
    assert why == "paused" and deaths == 6
    paused = of_kind(made, "session_paused")[-1].payload
    assert paused["reason"] == "crashes" and "6 deaths of the harness in one step" in paused["detail"]
    append_input(made.store.open("s"), (Draft("resume_requested", {"id": "r1"}),), made.clock, made.ids)
    assert made.run("s") == "ended", "a person's word begins the count anew"


def test_what_the_older_harness_sent_right_before_its_death_is_seen_before_anything_is_sent_again():
    """The outside honours no keys, and the older harness was alive until a moment before this one looked."""
    keyless = tuple(replace(spec, honours_key=False) if spec.name == "send" else spec for spec in tools())
    made, outside = crashed(definition=task(tools=keyless), at=CrashPoint.EFFECT_SEND, visit=1)
    (pending,) = of_kind(made, "effect_pending")
    rig = made.wake("s")

    def sends_and_dies(record):
        if not outside.requests:
            outside.send("done", pending.payload["key"])
        return True

    rig.known_dead = sends_and_dies
    assert run_loop(rig) == "ended"
    assert outside.requests == 1, "asked after the death, the outside says that it has it"
    assert [e.payload["outcome"] for e in of_kind(made, "effect_verified")] == ["completed"]
