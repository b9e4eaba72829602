"""Recoveries at every crash point: each pair of deaths, each scheme under each policy, judged by log and outside alone.

All in the simulated world: the same harness, thousands of deaths. Every request that a model gets on the way is held
against the pairing rules of the Messages API.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from agentlab import crashpoints
from agentlab.crashpoints import CrashPoint, SimulatedDeath
from agentlab.events import GENESIS, Head, verify_chain
from agentlab.models.pairing import check_messages
from agentlab.policies import parse_policy
from agentlab.session.fold import fold_all
from agentlab.session.schemes import SCHEMES
from agentlab.session.state import State
from agentlab.session.strategies import STRATEGIES
from agentlab.session.superseding import is_superseded, ranges

from .worlds import Outside, task, world

POLICIES = ("default", "every=3", "milestones", "never")
POINTS = sorted({p for p in CrashPoint} - {CrashPoint.EFFECT_CLAIM}, key=lambda p: p.value)


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    crashpoints.arm(None)


class Case:
    """One session, its deaths, and every request that its models got."""

    def __init__(self, **changes) -> None:
        self.outside = Outside()
        self.made = world(self.outside)
        self.requests = 0
        self._watch()
        self.made.accept(task(**changes), "s")

    def _watch(self) -> None:
        original = self.made.model_of

        def watching(definition):
            model = original(definition)
            complete = model.complete

            def checked(request, on_text=None):
                check_messages(request.messages, ask=True)
                assert f"<goal>{definition.goal}</goal>" in str(request.messages[0]), "the goal is never lost"
                self.requests += 1
                return complete(request, on_text)

            model.complete = checked
            return model

        self.made.model_of = watching

    def run(self, deaths, kill_sandbox=False, ends=("ended",)) -> int:
        """Die at the first visit of each (point, when) in turn, then run to the end; how many struck."""
        struck = 0
        for death in [*deaths, None]:
            self._arm(death)
            try:
                self.why = self.made.run("s")
                assert self.why in ends
                return struck
            except SimulatedDeath:
                struck += 1
                for name in self.made.sandboxes.alive() if kill_sandbox else ():
                    self.made.sandboxes.kill(name)
            finally:
                crashpoints.arm(None)
        raise AssertionError("it did not end")

    @staticmethod
    def _arm(death) -> None:
        if death is None:
            return
        point, when, visit = death
        visits = 0

        def strike(at, moment, detail):
            nonlocal visits
            if at is point and moment == when:
                visits += 1
                if visits == visit:
                    crashpoints.arm(None)
                    raise SimulatedDeath(f"{point.value} {when}")

        crashpoints.arm(strike)

    def judge(self, context) -> None:
        events = list(self.made.store.open("s").replay(1))
        verify_chain(events, Head(0, GENESIS))
        last = events[-1]
        assert last.type == "session_ended" and last.payload["outcome"] == "completed", context
        assert len(self.outside.delivered) == 1, f"{context}: {self.outside.delivered}"
        aside = ranges(events)
        answers = [e for e in events if e.type in ("tool_result", "tool_error") and not is_superseded(e.seq, aside)]
        counts = Counter(e.payload["call_id"] for e in answers)
        assert set(counts.values()) == {1}, f"{context}: one result in force for each call"
        asked = {e.payload["call_id"] for e in events if e.type == "tool_requested" and not is_superseded(e.seq, aside)}
        assert asked <= set(counts), f"{context}: a call is left without a result"
        state = fold_all(State(hash=GENESIS), events)
        spent = [e for e in events if e.type == "model_response"]
        assert state.budget.used["model_calls"] == len(spent), f"{context}: the budget is that of the whole log"
        requests = sum(e.type == "model_request" for e in events)
        assert requests - _cut(events) <= self.requests <= requests, (
            f"{context}: nothing is asked that is not on record"
        )
        opened = sum(e.type == "harness_woken" for e in events)
        completed = [e for e in events if e.type == "recovery_completed"]
        assert len(completed) <= opened - 1 or opened == 1, context
        assert all("tax" in e.payload for e in completed), context


def _cut(events) -> int:
    """Requests without an answer: nobody knows whether they were sent."""
    open_, cut = False, 0
    for event in events:
        if event.type == "model_request":
            cut += open_
            open_ = True
        elif event.type in ("model_response", "model_error"):
            open_ = False
    return cut + open_


def visits_of(case, upto=1):
    """Every (point, when, visit) of a run that nobody disturbs, at most ``upto`` visits of each."""
    seen: Counter = Counter()

    def note(point, when, detail):
        seen[point, when] += 1

    crashpoints.arm(note)
    try:
        assert case.made.run("s") == "ended"
    finally:
        crashpoints.arm(None)
    return [(p, w, v) for (p, w), n in sorted(seen.items()) for v in range(1, min(n, upto) + 1)]


def test_two_deaths_at_every_pair_of_crash_points():
    """The first anywhere in the run, the second anywhere in what follows: mostly in the recovery itself."""
    singles = visits_of(Case())
    assert len(singles) >= 40
    # What is durable after one boundary is mostly what it is before the next: only commits are struck on both sides.
    seconds = [s for s in singles if s[1] == "before" or s[0] in (CrashPoint.COMMIT, CrashPoint.POINTER_WRITE)]
    both = 0
    for first, second in product(singles, seconds):
        case = Case()
        both += case.run([first, second]) == 2
        case.judge((first, second))
    assert both > len(singles) * len(seconds) // 2, "most pairs strike twice"


@pytest.mark.parametrize("kill_sandbox", [False, True], ids=["sandbox lives", "sandbox dies too"])
@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_each_scheme_under_each_policy_at_every_crash_point(scheme, kill_sandbox):
    for policy in POLICIES[:1] if kill_sandbox else POLICIES:
        changes = {"scheme": scheme, "policy": parse_policy(policy)}
        for death in visits_of(Case(**changes)):
            case = Case(**changes)
            assert case.run([death], kill_sandbox) == 1, (policy, death)
            case.judge((scheme, policy, death))


def test_the_strategies_compared_by_how_often_a_task_is_finished(capsys):
    """Killed at every crash point under each: an effect is never repeated, but what is told decides about the work."""
    finished = {}
    for strategy in sorted(STRATEGIES):
        deaths = visits_of(Case(strategy=strategy), upto=2)
        ends = Counter()
        for death in deaths:
            case = Case(strategy=strategy)
            assert case.run([death], ends=("ended", "paused")) == 1, death
            ends[case.why] += 1
            assert len(case.outside.delivered) <= 1, (strategy, death)
            if case.why == "ended":
                case.judge((strategy, death))
        finished[strategy] = ends["ended"] / len(deaths)
    with capsys.disabled():
        print("\nfinished: " + ", ".join(f"{name} {share:.0%}" for name, share in finished.items()))
    assert finished["statement"] == finished["nothing"] == 1.0
    assert finished["synthetic_error"] < 1.0, "told that a write was interrupted, the model writes again"


def test_three_deaths_in_a_row_under_the_scheme_that_goes_back():
    recovery = [
        (CrashPoint.COMMIT, "before", 2),
        (CrashPoint.COMMIT, "after", 2),
        (CrashPoint.POINTER_WRITE, "before", 1),
    ]
    for first in visits_of(Case(scheme="snapshot", policy=parse_policy("every=6"))):
        for second in recovery:
            case = Case(scheme="snapshot", policy=parse_policy("every=6"))
            case.run([first, second, (CrashPoint.EFFECT_REPLY, "before", 1)])
            case.judge((first, second))


def test_every_crash_point_of_the_simulated_world_is_among_them():
    reached = {point for point, _, _ in visits_of(Case())}
    assert {CrashPoint.WAKE, CrashPoint.COMMIT, CrashPoint.EFFECT_REPLY, CrashPoint.SNAPSHOT} <= reached <= set(POINTS)
