"""Going back to a checkpoint by appending: the workspace goes back, effects and spending do not, nothing is erased."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import PolicySpec, StepSpec, ValidatorSpec
from agentlab.events import GENESIS, Draft, Event, Head, verify_chain
from agentlab.harness.loop import turn
from agentlab.harness.rig import Rig
from agentlab.harness.simulation import SimulatedWorld
from agentlab.lab.inputs import append_input
from agentlab.models.pairing import check_messages
from agentlab.session.fold import fold_all
from agentlab.session.state import State
from agentlab.session.superseding import is_superseded, ranges

from .test_simulated_crashes import Visit, die_at, report, visits_of
from .worlds import Outside, local, task, world

STEPS = (
    StepSpec("add", tool="add"),
    StepSpec("send", tool="send", kind="downstream"),
    StepSpec("write", validator=ValidatorSpec(local("written"))),
)


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def fresh(**changes) -> tuple[SimulatedWorld, Outside]:
    outside = Outside()
    made = watched(world(outside))
    made.accept(task(**{"steps": STEPS, "policy": PolicySpec("every_steps", {"n": 1}), **changes}), "s")
    return made, outside


def watched(made: SimulatedWorld) -> SimulatedWorld:
    """Every history that a model is sent passes the strict validator of the pairing rules."""
    original = made.model_of

    def model_of(definition):
        model = original(definition)
        complete = model.complete

        def check(request, on_text=None):
            check_messages(request.messages, ask=True)
            return complete(request, on_text)

        model.complete = check
        return model

    made.model_of = model_of
    return made


def events(made: SimulatedWorld) -> list[Event]:
    return list(made.store.open("s").replay())


def drive(made: SimulatedWorld, until: Callable[[Rig], bool]) -> Rig:
    rig = made.wake("s")
    for _ in range(200):
        if until(rig):
            rig.recorder.commit()
            return rig
        turn(rig)
    raise AssertionError("it never came there")


def ask_restore(made: SimulatedWorld, seq: int) -> Event:
    draft = Draft("restore_requested", {"id": made.ids.new("i"), "checkpoint_seq": seq})
    return append_input(made.store.open("s"), (draft,), made.clock, made.ids)[0]


def first_checkpoint(made: SimulatedWorld) -> int:
    return next(e.seq for e in events(made) if e.type == "checkpoint_written")


def written_done(rig: Rig) -> bool:
    return any(e.type == "tool_result" and e.payload["tool"] == "write" for e in rig.log.replay())


def judge(made: SimulatedWorld, outside: Outside, restores: int = 1) -> list[Event]:
    found = events(made)
    verify_chain(found, Head(0, GENESIS))
    assert found[-1].type == "session_ended" and found[-1].payload["outcome"] == "completed"
    assert len(outside.delivered) == 1, "exactly one effect"
    assert report(made) == b"one line\n", "the workspace went back too"
    back = [e for e in found if e.type == "restored_to"]
    assert len(back) == restores
    gone = ranges(back)
    in_force = [e for e in found if not is_superseded(e.seq, gone)]
    results = Counter(e.payload["call_id"] for e in found if e.type in ("tool_result", "tool_error"))
    assert all(count == 1 for count in results.values()), "each call has at most one result"
    requested = {e.payload["call_id"] for e in in_force if e.type == "tool_requested"}
    assert requested <= set(results), "no call in force is left without a result"
    steps = Counter(e.payload["step_id"] for e in in_force if e.type == "step_completed")
    assert steps == {"add": 1, "send": 1, "write": 1}
    return found


def test_the_work_is_done_again_and_the_effect_is_found_on_record():
    made, outside = fresh()
    rig = drive(made, written_done)
    spent = dict(rig.state.budget.used)
    asked = ask_restore(made, first_checkpoint(made))
    assert made.run("s") == "ended"
    found = judge(made, outside)
    back = next(e for e in found if e.type == "restored_to")
    assert back.payload["request_id"] == asked.payload["id"]
    assert back.payload["superseded_from"] == first_checkpoint(made) + 1
    sends = [e for e in found if e.type == "tool_result" and e.payload["tool"] == "send"]
    assert [bool(e.payload.get("reused")) for e in sends] == [False, True] and outside.requests == 1
    assert sends[0].payload["output"] == sends[1].payload["output"]
    assert found[-1].payload["totals"]["model_calls"] >= spent["model_calls"] + 2, "spending is not undone"
    assert "send has happened all the same" in back.payload["note"]
    assert (
        back.payload["note"]
        in next(
            e for e in found if e.type == "model_request" and e.payload["purpose"] == "act" and e.seq > back.seq
        ).payload["notes"]
    )


def test_a_living_harness_goes_back_at_its_next_safe_point():
    made, outside = fresh()
    rig = drive(made, written_done)
    ask_restore(made, first_checkpoint(made))
    while turn(rig).name != "Rest":
        pass
    found = judge(made, outside)
    assert [e.type for e in found].count("harness_woken") == 1
    restored = [e for e in found if e.type == "sandbox_restored"]
    assert len(restored) == 2, "the living sandbox was filled again"


def test_the_fold_from_the_first_event_agrees_with_the_one_from_a_checkpoint():
    from agentlab.harness.wake import load

    made, _ = fresh()
    drive(made, written_done)
    ask_restore(made, first_checkpoint(made))
    made.run("s")
    log = made.store.open("s")
    assert fold_all(State(hash=GENESIS), log.replay()) == load(log, made.store.blobs).state


@pytest.mark.parametrize("kill_sandbox", [False, True], ids=["sandbox lives", "sandbox dies too"])
def test_a_death_at_every_crash_point_of_a_restore_changes_nothing(kill_sandbox):
    def prepared() -> tuple[SimulatedWorld, Outside]:
        made, outside = fresh()
        drive(made, written_done)
        ask_restore(made, first_checkpoint(made))
        return made, outside

    made, _ = prepared()
    visits: list[Visit] = visits_of(lambda: made.run("s"))
    assert len(visits) > 60
    for visit in visits[:: 3 if kill_sandbox else 1]:
        made, outside = prepared()
        die_at(visit)
        with pytest.raises(SimulatedDeath):
            made.run("s")
        if kill_sandbox:
            for name in made.sandboxes.alive():
                made.sandboxes.kill(name)
        assert made.run("s") == "ended", visit
        judge(made, outside)


@pytest.mark.parametrize("honoured", [True, False], ids=["not sent", "sent"])
@pytest.mark.parametrize("point", [CrashPoint.EFFECT_SEND, CrashPoint.EFFECT_REPLY], ids=lambda p: p.value)
def test_an_effect_that_is_open_when_its_call_is_superseded_is_verified_first(point, honoured):
    made, outside = fresh()
    die_at((point, "before", 1))
    with pytest.raises(SimulatedDeath):
        made.run("s")
    ask_restore(made, first_checkpoint(made))
    assert made.run("s") == "ended"
    found = judge(made, outside)
    back = next(e.seq for e in found if e.type == "restored_to")
    verified = [e for e in found if e.type == "effect_verified" and e.seq > back]
    assert len(verified) == 1
    happened = point is CrashPoint.EFFECT_REPLY
    assert verified[0].payload["outcome"] == ("completed" if happened else "not_done")
    assert outside.requests == 1
    asked_after = [e.seq for e in found if e.type == "model_request" and e.seq > back]
    assert verified[0].seq < asked_after[0], "before anything is asked of the model"


def test_an_effect_in_doubt_stays_with_the_person_when_its_call_is_superseded():
    made, outside = in_doubt()
    assert made.run("s") == "waiting"
    ask_restore(made, first_checkpoint(made))
    log = made.store.open("s")
    resume = Draft("resume_requested", {"id": made.ids.new("i")})
    append_input(log, (resume,), made.clock, made.ids)
    assert made.run("s") == "waiting", "the question outlives the restore"
    question = [e for e in events(made) if e.type == "question_asked"][-1]
    settle = Draft("effect_settled", {"id": made.ids.new("i"), "key": question.payload["key"], "decision": "done"})
    append_input(log, (settle,), made.clock, made.ids)
    assert made.run("s") == "ended"
    found = judge(made, outside)
    assert outside.requests == 1
    assert [e.payload.get("reused") for e in found if e.type == "tool_result" and e.payload["tool"] == "send"][-1]


def in_doubt() -> tuple[SimulatedWorld, Outside]:
    from dataclasses import replace

    from .worlds import tools

    outside = Outside()
    made = watched(world(outside))
    known = tuple(replace(t, verify=None, honours_key=False) if t.name == "send" else t for t in tools())
    made.accept(task(steps=STEPS, policy=PolicySpec("every_steps", {"n": 1}), tools=known), "s")
    die_at((CrashPoint.EFFECT_REPLY, "before", 1))
    with pytest.raises(SimulatedDeath):
        made.run("s")
    return made, outside


@pytest.mark.parametrize("decision", ["done", "retry", "skip"])
def test_what_a_person_left_undone_is_not_sent_when_the_model_asks_again(decision):
    made, outside = in_doubt()
    assert made.run("s") == "waiting"
    settle(made, "skip")
    assert made.run("s") == "waiting", "the model asks again, and nobody knows more than before: the person is asked"
    assert outside.requests == 1, "nothing is sent unasked"
    assert "left it undone" in [e for e in events(made) if e.type == "effect_in_doubt"][-1].payload["reason"]
    settle(made, decision)
    assert made.run("s") == ("waiting" if decision == "skip" else "ended")
    assert outside.requests == (2 if decision == "retry" else 1)


def test_what_was_left_undone_is_neither_a_fact_nor_lost_by_a_crash():
    made, outside = in_doubt()
    assert made.run("s") == "waiting"
    settle(made, "skip")
    die_at((CrashPoint.MODEL_SEND, "before", 1))
    with pytest.raises(SimulatedDeath):
        made.run("s")
    crashpoints.arm(None)
    assert made.run("s") == "waiting" and outside.requests == 1
    notes = [
        e.payload["detail"]["note"]
        for e in events(made)
        if e.type == "recovery_step" and e.payload["step"] == "rebuild"
    ]
    assert "send was left undone by a person" in notes[-1] and "send has happened" not in notes[-1]


def settle(made, decision):
    question = [e for e in events(made) if e.type == "question_asked"][-1]
    settled = Draft("effect_settled", {"id": made.ids.new("i"), "key": question.payload["key"], "decision": decision})
    append_input(made.store.open("s"), (settled,), made.clock, made.ids)


def test_going_back_before_the_first_snapshot_empties_the_workspace():
    made, outside = fresh(policy=PolicySpec("never"))
    rig = made.wake("s")
    checkpoint = Draft("checkpoint_requested", {"id": "first", "label": "bare"})
    append_input(made.store.open("s"), (checkpoint,), made.clock, made.ids)
    while not written_done(rig):
        turn(rig)
        rig.recorder.commit()
    assert not next(e for e in events(made) if e.type == "checkpoint_written").payload.get("snapshot")
    ask_restore(made, first_checkpoint(made))
    while turn(rig).name != "Rest":
        pass
    found = judge(made, outside)
    assert next(e for e in found if e.type == "restored_to").payload["label"] == "bare"


def test_what_is_no_checkpoint_or_is_superseded_is_refused_and_the_session_goes_on():
    made, outside = fresh()
    drive(made, written_done)
    early, late = [e.seq for e in events(made) if e.type == "checkpoint_written"][:2]
    ask_restore(made, 3)
    assert made.run("s") == "ended"
    assert "no checkpoint" in next(e for e in events(made) if e.type == "restore_refused").payload["reason"]
    made, outside = fresh()
    rig = drive(made, written_done)
    ask_restore(made, early)
    turn(rig)
    ask_restore(made, late)
    turn(rig)
    found = events(made)
    refused = next(e for e in found if e.type == "restore_refused")
    assert "superseded" in refused.payload["reason"] and "fork" in refused.payload["reason"]
    assert made.run("s") == "ended"
    judge(made, outside)


def test_two_restores_in_a_row_and_the_limits_of_the_budget_hold():
    made, outside = fresh()
    drive(made, written_done)
    first = first_checkpoint(made)
    for _ in range(2):
        ask_restore(made, first)
        rig = made.wake("s")
        while not [e for e in events(made) if e.type == "tool_result" and e.payload["tool"] == "write"][-1].seq > max(
            e.seq for e in events(made) if e.type in ("restored_to", "restore_requested")
        ):
            turn(rig)
            rig.recorder.commit()
    assert made.run("s") == "ended"
    judge(made, outside, restores=2)


def test_a_restore_in_the_middle_of_a_round_leaves_no_call_without_its_result():
    """The field report: an orphan tool_use in mid-history after a resume makes the API refuse for ever."""
    for stop in ("tool_requested", "model_request", "model_response", "effect_pending", "step_started"):
        made, outside = fresh()
        landed = []
        rig = made.wake("s")
        first = None
        while first is None or not landed:
            turn(rig)
            rig.recorder.commit()
            found = events(made)
            first = next((e.seq for e in found if e.type == "checkpoint_written"), None)
            landed = [e for e in found if e.type == stop and first is not None and e.seq > first]
        ask_restore(made, first)
        assert made.run("s") == "ended", stop
        judge(made, outside)
