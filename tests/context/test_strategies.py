"""Compaction as pure functions of blocks: whole rounds, one direction, and it ends."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentlab.context import Block, ContextSpec, ContextState, compacted, cut_payload, due, plan_cut
from agentlab.context.sizes import capped_tokens
from agentlab.context.spec import STRATEGY_NAMES
from agentlab.context.state import with_blocks
from agentlab.context.strategies import STRATEGIES, tokens_of
from agentlab.errors import BadDefinition, UnknownName
from agentlab.evolve import evolve

rounds = st.lists(
    st.tuples(
        st.integers(1, 3_000),
        st.lists(st.tuples(st.sampled_from(("result", "error")), st.integers(30, 3_100)), max_size=6),
    ),
    min_size=1,
    max_size=90,
)
specs = st.builds(
    lambda parts, keep, more, results, chars: ContextSpec(
        strategy="+".join(parts), keep_rounds=keep, max_rounds=keep + more, keep_results=results, result_chars=chars
    ),
    st.lists(st.sampled_from(STRATEGY_NAMES), min_size=1, max_size=5, unique=True),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 12),
    st.integers(0, 2_000),
)


def state_of(found, spec):
    blocks, seq = [], 0
    for number, (size, results) in enumerate(found, 1):
        seq += 2
        blocks.append(Block(seq, "response", size, number))
        for index, (kind, tokens) in enumerate(results):
            seq += 1
            blocks.append(Block(seq, kind, tokens, number, f"c{number}.{index}"))
    return evolve(with_blocks(ContextState(), tuple(blocks)), round=len(found), spec=spec, dropped=0)


def whole_rounds(blocks, of):
    """Whether the blocks are whole rounds of ``of``, and the newest among them."""
    kept = {b.round for b in blocks}
    return [b.seq for b in of if b.round in kept] == [b.seq for b in blocks] and of[-1].round in kept


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rounds, specs, st.integers(0, 60_000))
def test_each_strategy_keeps_whole_rounds_and_never_grows(found, spec, target):
    blocks = state_of(found, spec).blocks
    for strategy in STRATEGIES.values():
        after = strategy(blocks, target, spec)
        assert whole_rounds(after, blocks)
        assert tokens_of(after) <= tokens_of(blocks)
        assert strategy(blocks, target, spec) == after
        safe = blocks[-1].round - spec.keep_results
        assert all(a == b for a, b in zip(reversed(after), reversed(blocks), strict=False) if a.round > safe)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rounds, specs, st.integers(0, 60_000))
def test_compaction_ends_and_fits_where_the_newest_round_allows_it(found, spec, room):
    state = state_of(found, spec)
    for _ in range(200):
        cut = plan_cut(state, room) if due(state, room) else None
        if cut is None:
            break
        assert whole_rounds(cut.kept, state.blocks)
        payload = cut_payload(cut, state, room)
        after = compacted(state, payload)
        assert after.tokens == tokens_of(after.blocks) == cut.tokens_after == payload["tokens_after"]
        assert after.blocks == cut.kept
        assert (after.tokens, len(after.blocks)) < (state.tokens, len(state.blocks)) or after.tokens < state.tokens
        state = after
    else:
        raise AssertionError("compaction does not end")
    newest = [b for b in state.blocks if b.round == state.round]
    answers = sum(b.tokens for b in newest if b.kind == "response")
    least = answers + capped_tokens(200) * (len(newest) - 1)
    assert state.tokens <= max(room, least)
    assert state.blocks[-1].round - state.blocks[0].round < spec.max_rounds


def test_old_results_are_shortened_before_anything_is_dropped():
    spec = ContextSpec(strategy="results+window", keep_results=2)
    state = state_of([(10, [("result", 2_000)])] * 10, spec)
    cut = plan_cut(state, 20_000)
    assert cut.strategy == "results" and not cut.dropped
    assert list(cut.shortened) == [b.seq for b in state.blocks if b.kind == "result"][: len(cut.shortened)]
    assert cut.tokens_after <= 10_000


def test_an_event_of_the_first_version_is_still_understood():
    state = state_of([(10, [("result", 50)])] * 6, ContextSpec())
    old = {"dropped": {"blocks": 4, "from_seq": 2, "to_seq": 6}, "kept": {"blocks": 8, "from_round": 3}}
    after = compacted(state, old)
    assert after.blocks[0].round == 3 and after.dropped == 4 and after.tokens == tokens_of(after.blocks)


def test_a_wrong_specification_is_refused_with_its_name():
    for wrong, said in (
        ({"strategy": "windows"}, "window"),
        ({"colour": 1}, "context setting"),
    ):
        with pytest.raises(UnknownName, match=said):
            ContextSpec.from_json(wrong)
    for wrong in (
        {"keep_rounds": 60},
        {"low": 0.9},
        {"anchors": 0},
        {"max_rounds": True},
        {"drift_threshold": 2},
        {"model": 3},
    ):
        with pytest.raises(BadDefinition):
            ContextSpec.from_json(wrong)
    spec = ContextSpec(strategy="drop_results+window", anchors=3)
    assert ContextSpec.from_json(spec.to_json()) == spec
