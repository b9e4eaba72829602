"""The fold: nudge once, then halt once; siblings, people, rounds; pure, bounded and restorable at any point."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlab.errors import BadDefinition
from agentlab.guard import Action, GuardPolicy, GuardState, findings, new_step, observe, resumed, round_cap
from agentlab.guard.corpus import corpus
from agentlab.guard.normalise import call_key

POLICY = GuardPolicy()
LS = Action("bash", {"command": "ls"}, "ok", "a")


def fold(actions: list[Action], state: GuardState | None = None) -> tuple[GuardState, list[tuple[int, str]]]:
    state = state or GuardState()
    said: list[tuple[int, str]] = []
    for action in actions:
        state, finding = observe(state, action, POLICY)
        if finding:
            said.append((action.seq, finding.action))
    return state, said


def repeated(n: int, first: int = 1) -> list[Action]:
    return [replace(LS, seq=i) for i in range(first, first + n)]


def test_a_streak_is_nudged_once_and_halted_once() -> None:
    assert fold(repeated(30))[1] == [(4, "nudge"), (6, "pause")]


def test_a_nudge_that_helps_is_all_and_a_new_loop_is_nudged_anew() -> None:
    other = [Action("read", {"path": f"f{i}"}, "ok", f"text {i}", seq=10 + i) for i in range(12)]
    assert fold(repeated(4) + other + repeated(6, 40))[1] == [(4, "nudge"), (43, "nudge"), (45, "pause")]


def test_the_message_names_the_call_and_the_events_but_not_the_input() -> None:
    found = findings([replace(a, input={"command": "ls --secret"}) for a in repeated(4)])
    assert "bash:ls" in found[0].message and "1, 2, 3, 4" in found[0].message and "--secret" not in found[0].message


def test_after_a_resume_the_run_is_not_halted_at_once() -> None:
    state, _ = fold(repeated(6))
    assert fold(repeated(5, 7), resumed(state))[1] == [(10, "nudge")]


def test_a_person_who_spoke_forgives() -> None:
    actions = repeated(3) + [replace(LS, seq=4, after_person=True)] + repeated(2, 5)
    assert fold(actions)[1] == []


def test_siblings_of_one_answer_count_as_one_round() -> None:
    actions = [replace(LS, seq=i, batch="one") for i in range(1, 9)]
    state, said = fold(actions)
    assert said == [] and state.rounds == 1


def test_off_means_off() -> None:
    assert findings(repeated(20), GuardPolicy(enabled=False)) == []
    assert findings(repeated(20), GuardPolicy(rules=("cycle",))) == []


def test_the_cap_of_rounds_gives_no_nudge_and_starts_anew_with_each_step() -> None:
    policy = GuardPolicy(rounds_per_step=5)
    state = GuardState()
    for i in range(1, 6):
        assert round_cap(state, policy) is None
        state, _ = observe(state, Action("read", {"path": str(i)}, seq=i, step=1), policy)
    cap = round_cap(state, policy)
    assert cap is not None and (cap.rule, cap.action, cap.evidence) == ("rounds", "pause", (1, 2, 3, 4, 5))
    assert round_cap(new_step(state), policy) is None
    state, _ = observe(state, Action("read", {"path": "6"}, seq=6, step=2), policy)
    assert state.rounds == 1 and round_cap(state, GuardPolicy(rounds_per_step=None)) is None


def test_policy_round_trips_and_names_what_it_does_not_know() -> None:
    policy = GuardPolicy(final="stop", rules=("repeat",), same=POLICY.fails)
    assert GuardPolicy.from_json(json.loads(json.dumps(policy.to_json()))) == policy
    for wrong in ({"same_": [1, 2]}, {"rules": ["magic"]}, {"final": "explode"}, {"same": [5, 2]}):
        with pytest.raises(BadDefinition):
            GuardPolicy.from_json(wrong)


keys = st.text("abcdef", min_size=1, max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
inputs = st.dictionaries(keys, values, max_size=4)
texts = st.sampled_from(["", "ok", "running", "[]", "12:00:01 down", "a\nb\nc\nd"]) | st.text(max_size=60)
calls = st.builds(
    Action,
    st.sampled_from(["bash", "read", "edit", "search", "wait", "scroll"]),
    st.sampled_from([{"command": "ls"}, {"command": ""}, {"path": "a.py"}, {"q": "x y"}]) | inputs | values,
    st.sampled_from(["ok", "error"]),
    texts,
    st.none() | st.sampled_from(["ValueError", "Timeout"]),
    st.none() | texts,
    stateful_read=st.booleans(),
    batch=st.none() | st.sampled_from(["1", "2"]),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(inputs, st.randoms())
def test_key_order_never_matters(value: dict[str, object], rng: random.Random) -> None:
    items = list(value.items())
    rng.shuffle(items)
    assert call_key("t", dict(items)) == call_key("t", value)


@settings(max_examples=60, deadline=None)
@given(st.lists(calls, max_size=80), st.integers(0, 80))
def test_a_state_restored_from_json_finds_the_same(actions: list[Action], cut: int) -> None:
    actions = [replace(a, seq=i) for i, a in enumerate(actions, 1)]
    whole, said = fold(actions)
    half, first = fold(actions[:cut])
    again = GuardState.from_json(json.loads(json.dumps(half.to_json())))
    assert again == half
    end, second = fold(actions[cut:], again)
    assert (end, first + second) == (whole, said)


@settings(max_examples=40, deadline=None)
@given(st.lists(calls, max_size=20), calls)
def test_observe_is_pure(actions: list[Action], last: Action) -> None:
    state, _ = fold(actions)
    before = json.dumps(state.to_json())
    assert observe(state, last, POLICY) == observe(state, last, POLICY)
    assert json.dumps(state.to_json()) == before


def test_the_state_does_not_grow() -> None:
    def size(n: int) -> int:
        actions = [Action("bash", {"command": f"grep w{i} f{i}.py"}, "ok", "hit\n" * 90, seq=i) for i in range(n)]
        return len(json.dumps(fold(actions)[0].to_json()))

    assert size(1500) < 1.1 * size(100) < 16_000


def test_findings_do_not_depend_on_what_came_before_the_window() -> None:
    for case in corpus(seed=5, variations=1):
        shifted = [replace(a, seq=a.seq + 1000) for a in case.actions]
        padding = [Action("look", {"path": f"p{i}"}, "ok", f"pad {i}", seq=i) for i in range(200)]
        assert [f.action for f in findings(padding + shifted)] == [f.action for f in findings(case.actions)]
