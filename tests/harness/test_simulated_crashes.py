"""Every crash point of a whole run, before and after, at every visit: die there, wake, and lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath, When
from agentlab.errors import SandboxGone
from agentlab.events import GENESIS, Head, verify_chain
from agentlab.harness.loop import turn
from agentlab.harness.simulation import SimulatedWorld
from agentlab.models.pairing import check_messages
from agentlab.session.commands import End, Rest

from .worlds import Outside, task, world

Visit = tuple[CrashPoint, When, int]


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


def visits_of(run: Callable[[], object]) -> list[Visit]:
    """Every visit of every crash point while ``run`` runs."""
    seen: Counter[tuple[CrashPoint, When]] = Counter()
    order: list[Visit] = []

    def note(point: CrashPoint, when: When, detail: str) -> None:
        seen[point, when] += 1
        order.append((point, when, seen[point, when]))

    crashpoints.arm(note)
    try:
        run()
    finally:
        crashpoints.arm(None)
    return order


def die_at(visit: Visit) -> None:
    """Arm one simulated death."""
    count = 0

    def strike(point: CrashPoint, when: When, detail: str) -> None:
        nonlocal count
        if (point, when) == visit[:2]:
            count += 1
            if count == visit[2]:
                crashpoints.arm(None)
                raise SimulatedDeath(f"{point.value} {when}")

    crashpoints.arm(strike)


def run_with_deaths(made: SimulatedWorld, deaths: list[Visit], kill_sandbox: bool = False) -> int:
    """Drive session ``s`` to its rest, dying at each of ``deaths`` in turn; returns how many really struck."""
    struck = 0
    for attempt in range(len(deaths) + 2):
        if attempt < len(deaths):
            die_at(deaths[attempt])
        try:
            assert made.run("s") == "ended"
            return struck
        except SimulatedDeath:
            struck += 1
            if kill_sandbox:
                for name in made.sandboxes.alive():
                    made.sandboxes.kill(name)
        finally:
            crashpoints.arm(None)
    raise AssertionError("the session did not end once the deaths stopped")


def judge(made: SimulatedWorld, outside: Outside, baseline_report: bytes) -> None:
    events = list(made.store.open("s").replay())
    verify_chain(events, Head(0, GENESIS))
    ended = events[-1]
    assert ended.type == "session_ended"
    made.sandboxes.expire()  # one that nobody has on record ends itself
    assert not made.sandboxes.alive(), "the sandbox was given back"
    assert ended.payload["outcome"] == "completed"
    assert len(outside.delivered) == 1, "exactly one effect"
    results = Counter(e.payload["call_id"] for e in events if e.type in ("tool_result", "tool_error"))
    assert all(count == 1 for count in results.values()), "each call has exactly one result"
    requested = {e.payload["call_id"] for e in events if e.type == "tool_requested"}
    assert requested == set(results), "no call is left without a result"
    assert report(made) == baseline_report


def report(made: SimulatedWorld) -> bytes:
    from agentlab.sandbox.snapshot import decode

    snapshots = [e.payload["digest"] for e in made.store.open("s").replay() if e.type == "snapshot_taken"]
    entries = {e.path: e.ref for e in decode(made.store.blobs.get(snapshots[-1]))}
    return made.store.blobs.get(entries["report.txt"])


def fresh() -> tuple[SimulatedWorld, Outside]:
    outside = Outside()
    made = world(outside)
    made.accept(task(), "s")
    return made, outside


def all_visits() -> list[Visit]:
    made, _ = fresh()
    return visits_of(lambda: made.run("s"))


VISITS = all_visits()


def test_the_run_reaches_the_boundaries_that_matter():
    reached = {point for point, _, _ in VISITS}
    wanted = {
        CrashPoint.WAKE, CrashPoint.COMMIT, CrashPoint.LOG_LINK, CrashPoint.MODEL_SEND, CrashPoint.MODEL_REPLY,
        CrashPoint.TOOL_SEND, CrashPoint.TOOL_REPLY, CrashPoint.EFFECT_SEND, CrashPoint.EFFECT_REPLY,
        CrashPoint.SANDBOX_SPAWN, CrashPoint.SANDBOX_EXECUTE, CrashPoint.SNAPSHOT, CrashPoint.POINTER_WRITE,
    }  # fmt: skip
    assert wanted <= reached


@pytest.mark.parametrize("kill_sandbox", [False, True], ids=["sandbox lives", "sandbox dies too"])
def test_a_death_at_every_visit_of_every_crash_point_loses_nothing(kill_sandbox):
    for visit in VISITS:
        made, outside = fresh()
        struck = run_with_deaths(made, [visit], kill_sandbox)
        assert struck == 1, visit
        judge(made, outside, b"one line\n")


def test_a_second_death_during_the_recovery_loses_nothing_either():
    first = next(v for v in VISITS if v[0] is CrashPoint.EFFECT_REPLY)
    made, _ = fresh()
    with pytest.raises(SimulatedDeath):
        die_at(first)
        made.run("s")
    recovery = visits_of(lambda: made.run("s"))
    assert len(recovery) > 20
    for second in recovery:
        made, outside = fresh()
        assert run_with_deaths(made, [first, second]) == 2, second
        judge(made, outside, b"one line\n")


def test_forgetting_everything_after_every_command_changes_nothing():
    made, outside = fresh()
    rig = made.wake("s")
    for _ in range(400):
        rig = made.forget(rig)
        command = turn(rig)
        rig.recorder.commit()
        if isinstance(command, (End, Rest)):
            break
    else:
        raise AssertionError("it never came to rest")
    judge(made, outside, b"one line\n")


def test_messages_pair_after_every_crash():
    for visit in VISITS[::3]:
        made, _ = fresh()
        asked = []
        original = made.model_of

        def watching(definition, original=original, asked=asked):
            model = original(definition)
            complete = model.complete

            def check(request, on_text=None):
                check_messages(request.messages, ask=True)
                asked.append(request)
                return complete(request, on_text)

            model.complete = check
            return model

        made.model_of = watching
        run_with_deaths(made, [visit])
        assert asked


def test_a_lost_sandbox_in_the_middle_of_a_command_is_replaced():
    made, outside = fresh()

    def strike(point: CrashPoint, when: When, detail: str) -> None:
        if point is CrashPoint.SANDBOX_EXECUTE and when == "after":
            crashpoints.arm(None)
            for name in made.sandboxes.alive():
                made.sandboxes.kill(name)
            raise SandboxGone("killed by the test")

    crashpoints.arm(strike)
    assert made.run("s") == "ended"
    judge(made, outside, b"one line\n")
    kinds = Counter(e.type for e in made.store.open("s").replay())
    assert kinds["sandbox_lost"] == 1 and kinds["sandbox_restored"] == 2
