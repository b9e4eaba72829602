"""An effect that happens once per content, whichever session asks, and however sessions die at it."""

from __future__ import annotations

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.definition import BUILTIN_TOOLS, StepSpec, ToolSpec
from agentlab.events import Draft
from agentlab.harness.loop import run as run_loop
from agentlab.lab.inputs import append_input
from agentlab.log.claims import FileClaims, MemoryClaims
from agentlab.models.scripted import call, say
from agentlab.ports import Claim

from .worlds import OBJECT, Outside, local, task, world


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def sends(view):
    return [say("sending"), call("send", message="hello")] if view.status.get("step") == "send" else say("done")


def definition(**changes):
    fields = {"effect": "external", "ref": local("send"), "verify": local("was_sent"), "once_per_content": True}
    spec = ToolSpec("send", "Send.", OBJECT, **{**fields, **changes})
    steps = (StepSpec("send", tool="send", kind="downstream"),)
    return task(steps=steps, tools=(spec, *BUILTIN_TOOLS.values()), validator=None)


def fresh(**changes):
    outside = Outside()
    made = world(outside, sends)
    for name in "abc":
        made.accept(definition(**changes), name)
    return made, outside


def events(made, session):
    return list(made.store.open(session).replay(1))


def result_of(made, session):
    return [e for e in events(made, session) if e.type in ("tool_result", "tool_error")][-1]


def die(made, session, at, when="before"):
    def strike(point, moment, detail):
        if point is at and moment == when:
            raise SimulatedDeath(at.value)

    crashpoints.arm(strike)
    with pytest.raises(SimulatedDeath):
        made.run(session)
    crashpoints.arm(None)


def test_a_second_session_gets_the_recorded_result_of_the_first():
    made, outside = fresh()
    assert made.run("a") == made.run("b") == "ended"
    assert outside.requests == 1
    second = result_of(made, "b").payload
    assert second["reused"] is True and second["effect_of_session"] == "a"
    assert second["output"] == result_of(made, "a").payload["output"]
    key = next(e for e in events(made, "a") if e.type == "effect_pending").payload["key"]
    assert key.startswith("content:"), "the input hash alone makes the key"
    assert not [e for e in events(made, "b") if e.type == "effect_pending"]


def test_without_it_each_session_has_an_effect_of_its_own():
    made, outside = fresh(once_per_content=False)
    assert made.run("a") == made.run("b") == "ended" and outside.requests == 2


def test_the_index_is_built_again_from_the_logs_when_it_is_gone():
    made, outside = fresh()
    assert made.run("a") == "ended"
    made.claims = MemoryClaims()
    assert made.run("b") == "ended" and outside.requests == 1
    assert result_of(made, "b").payload["effect_of_session"] == "a"


@pytest.mark.parametrize(
    ("point", "when"),
    [
        (CrashPoint.EFFECT_CLAIM, "before"),
        (CrashPoint.EFFECT_CLAIM, "after"),
        (CrashPoint.EFFECT_SEND, "before"),
        (CrashPoint.EFFECT_REPLY, "before"),
    ],
)
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_session_that_died_at_it_is_taken_over_and_its_effect_verified(point, when, first):
    made, outside = fresh()
    die(made, "a", point, when)
    for session in (first, "a" if first == "b" else "b"):
        assert made.run(session) == "ended"
    assert list(outside.delivered) == [f"content:{result_of(made, 'a').input_hash.removeprefix('sha256:')[:32]}"]
    assert outside.requests == 1, "each time the outside was asked before anything was sent again"
    assert result_of(made, "a").type == result_of(made, "b").type == "tool_result"


def test_a_session_that_ends_between_the_look_at_its_log_and_the_look_at_its_harness_has_done_it():
    made, outside = fresh()
    die(made, "a", CrashPoint.EFFECT_CLAIM, "after")
    rig = made.wake("b")

    def ends_meanwhile(record):
        if not any(e.type == "session_ended" for e in events(made, "a")):
            assert made.run("a") == "ended"
        return True

    rig.known_dead = ends_meanwhile
    assert run_loop(rig) == "ended"
    assert outside.requests == 1 and result_of(made, "b").payload["effect_of_session"] == "a"


class Delayed(MemoryClaims):
    """Claims between whose looks and takings something else happens once: what a session that was held up meets."""

    before_take = after_look = None

    def take(self, key, claim):
        happens, self.before_take = self.before_take, None
        if happens:
            happens()
        return super().take(key, claim)

    def held(self, key):
        found = super().held(key)
        happens, self.after_look = self.after_look, None
        if happens:
            happens(key)
        return found


def test_a_session_that_is_woken_while_another_takes_its_claim_has_done_it():
    made, outside = fresh()
    made.claims = claims = Delayed()
    die(made, "a", CrashPoint.EFFECT_CLAIM, "after")
    rig = made.wake("b")
    rig.claims, claims.before_take = claims, lambda: made.run("a")
    assert run_loop(rig) == "ended"
    assert outside.requests == 1 and result_of(made, "b").payload["effect_of_session"] == "a"


def test_what_an_older_claimant_has_done_counts_also_when_the_one_that_took_over_died_at_once():
    made, outside = fresh()
    made.claims = claims = Delayed()
    die(made, "a", CrashPoint.EFFECT_CLAIM, "after")

    def a_ends():
        crashpoints.arm(None)
        assert made.run("a") == "ended"
        crashpoints.arm(dies)

    def dies(point, moment, detail):
        if point is CrashPoint.EFFECT_CLAIM and moment == "after":
            raise SimulatedDeath(point.value)

    claims.before_take = a_ends
    crashpoints.arm(dies)
    with pytest.raises(SimulatedDeath):
        made.run("b")
    crashpoints.arm(None)
    assert made.run("c") == made.run("b") == "ended" and outside.requests == 1
    assert result_of(made, "c").payload["effect_of_session"] == result_of(made, "b").payload["effect_of_session"] == "a"


def test_what_was_taken_over_is_verified_also_by_the_next_harness():
    made, outside = fresh()
    die(made, "a", CrashPoint.EFFECT_REPLY)
    die(made, "b", CrashPoint.EFFECT_CLAIM, "after")
    assert made.run("b") == "ended" and outside.requests == 1, "it reached the outside from a"


def test_a_session_whose_claim_is_taken_while_it_registers_the_effect_does_not_send_it():
    made, outside = fresh()
    made.claims = claims = Delayed()
    die(made, "a", CrashPoint.EFFECT_CLAIM, "after")

    def b_claims(key):
        assert claims.take(key, Claim("b", 1, claims.held(key)[-1].number + 1))

    claims.after_look = b_claims
    assert made.run("a") == "ended" and outside.requests == 1
    kinds = [e.type for e in events(made, "a") if e.effect_key or e.type.startswith("effect_")]
    assert kinds[:2] == ["effect_pending", "effect_failed"], "registered, and then seen that b has it"
    assert (
        "session 'b' has claimed it"
        in next(e for e in events(made, "a") if e.type == "effect_failed").payload["reason"]
    )


def test_who_lives_and_has_registered_nothing_gives_way_to_a_newer_claim():
    made, outside = fresh()
    die(made, "a", CrashPoint.EFFECT_CLAIM, "after")
    rig = made.wake("b")
    looks = []
    rig.known_dead = lambda record: not looks.append(1) and len(looks) < 3  # dead at the look, alive after the taking
    assert run_loop(rig) == "ended" and outside.requests == 1 and len(looks) >= 3
    assert made.run("a") == "ended" and outside.requests == 1
    assert result_of(made, "a").payload["effect_of_session"] == "b"


def test_what_was_left_undone_there_is_asked_about_here_before_it_is_sent():
    made, outside = fresh(verify=None, honours_key=False)
    die(made, "a", CrashPoint.EFFECT_REPLY)
    assert made.run("a") == "waiting"
    (doubt,) = [e for e in events(made, "a") if e.type == "effect_in_doubt"]
    skip = Draft("effect_settled", {"id": "s", "key": doubt.payload["key"], "decision": "skip"})
    append_input(made.store.open("a"), (skip,), made.clock, made.ids)
    assert made.run("b") == "waiting", "it may have happened: a person decides here as well"
    assert outside.requests == 1


def test_what_is_in_doubt_there_is_not_sent_from_here():
    made, outside = fresh(verify=None, honours_key=False)
    die(made, "a", CrashPoint.EFFECT_REPLY)
    assert made.run("a") == "waiting", "nobody can tell whether it happened"
    assert made.run("b") == "paused" or result_of(made, "b").payload["kind"] == "busy_elsewhere"
    assert outside.requests == 1
    refused, *more = (e for e in events(made, "b") if e.type == "tool_error")
    assert len(more) <= 1, "it is tried again once, and then a person is asked"
    assert "session 'a' has this effect under way" in refused.payload["message"]
    (doubt,) = [e for e in events(made, "a") if e.type == "effect_in_doubt"]
    settled = Draft("effect_settled", {"id": "s", "key": doubt.payload["key"], "decision": "done"})
    append_input(made.store.open("a"), (settled,), made.clock, made.ids)
    assert made.run("a") == "ended"
    append_input(made.store.open("b"), (Draft("resume_requested", {"id": "r"}),), made.clock, made.ids)
    assert made.run("b") == "ended" and outside.requests == 1
    assert result_of(made, "b").payload["reused"] is True


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_what_is_in_doubt_in_two_sessions_and_may_be_sent_again_is_sent_by_one(order):
    made, outside = fresh(verify=None, honours_key=False)
    die(made, "a", CrashPoint.EFFECT_SEND)
    assert made.run("b") == "waiting", "taken over from a dead session, and nobody can tell"
    assert made.run("a") == "waiting"
    (doubt,) = [e for e in events(made, "a") if e.type == "effect_in_doubt"]
    for session in order:
        again = Draft("effect_settled", {"id": f"s-{session}", "key": doubt.payload["key"], "decision": "retry"})
        append_input(made.store.open(session), (again,), made.clock, made.ids)
    for session in order:
        assert made.run(session) == "ended"
    assert outside.requests == 1
    assert result_of(made, order[1]).payload["effect_of_session"] == order[0]


def test_what_one_of_two_sessions_may_send_again_waits_for_the_other_ones_question():
    made, outside = fresh(verify=None, honours_key=False)
    die(made, "a", CrashPoint.EFFECT_SEND)
    assert made.run("b") == made.run("a") == "waiting"
    (doubt,) = [e for e in events(made, "a") if e.type == "effect_in_doubt"]
    settled = [
        Draft("effect_settled", {"id": f"s{number}", "key": doubt.payload["key"], "decision": "retry"})
        for number in range(2)
    ]
    append_input(made.store.open("a"), (settled[0],), made.clock, made.ids)
    made.run("a")
    assert outside.requests == 0 and "'b' has this effect under way" in result_of(made, "a").payload["message"]
    append_input(made.store.open("b"), (settled[1],), made.clock, made.ids)
    assert made.run("b") == "ended" and outside.requests == 1
    append_input(made.store.open("a"), (Draft("resume_requested", {"id": "r"}),), made.clock, made.ids)
    assert made.run("a") == "ended" and outside.requests == 1


def test_of_two_that_claim_at_once_one_has_it(tmp_path):
    claims = FileClaims(tmp_path)
    assert not claims.built()
    claims.build({"j": [Claim("a", 5, 1), Claim("b", 3, 2)]})
    assert claims.built() and claims.held("k") == () and claims.held("j") == (Claim("a", 5, 1), Claim("b", 3, 2))
    assert claims.take("k", Claim("a", 5, 1)) and not claims.take("k", Claim("b", 9, 1))
    assert claims.held("k") == (Claim("a", 5, 1),)
    assert claims.take("k", Claim("b", 9, 2)) and claims.held("k") == (Claim("a", 5, 1), Claim("b", 9, 2))
    assert not list(tmp_path.rglob("*.tmp*")), "nothing is left beside"
    for newest in tmp_path.rglob("000002"):
        newest.write_text("torn")
    assert claims.held("k") == (Claim("a", 5, 1),), "what can not be read does not count"
