"""Every request of generated conversations of thousands of blocks: goal, constraints, anchors, size, pairs, fixed layer."""

import json
import random

import pytest

from agentlab.harness.loop import run, turn
from agentlab.session.commands import Rest

from .conversations import GOAL, Talker, accepted, conversation

STRATEGIES = ("window", "results+window+conclusions", "drop_results", "results+drop_results+window+model")


CASES = [(strategy, seed, 6_000, 150) for seed, strategy in enumerate(STRATEGIES, 1)]


@pytest.mark.parametrize(("strategy", "seed", "window", "turns"), [*CASES, (STRATEGIES[1], 9, 20_000, 1_000)])
def test_every_request_fits_and_holds_what_matters(strategy, seed, window, turns):
    watcher, world, rig = conversation(seed, window, turns, {"strategy": strategy})
    events = list(world.store.open("s").replay())
    assert events[-1].payload["reason"] == "max_turns", events[-1].payload
    context = rig.state.context
    blocks = len(context.blocks) + context.dropped
    assert watcher.requests >= turns and blocks > 2 * turns, f"seed {seed}: only {blocks} blocks"
    assert len(watcher.fixed) == 1, "the fixed layer is the same bytes in every request"
    assert watcher.largest > window // 4, "a window that is never nearly used proves nothing"
    cuts = [e for e in events if e.type == "context_compacted"]
    assert cuts and all(c.payload["tokens_after"] < c.payload["tokens_before"] for c in cuts)
    assert context.tokens == sum(b.tokens for b in context.blocks)
    # The log keeps everything that left the context.
    seqs = {e.seq for e in events if e.type in ("model_response", "tool_result", "tool_error")}
    gone = {n for c in cuts for first, last in c.payload["dropped"]["seqs"] for n in range(first, last + 1)}
    assert gone & seqs and {b.seq for b in context.blocks} <= seqs


def test_crashes_in_between_change_nothing_of_that():
    """A harness that is gone after any number of commands: the next one recovers, and every request still holds."""
    watcher, world, rig = accepted(3, 8_000, 200, {})
    crashes, rng = 12, random.Random(3)
    for _ in range(crashes):
        for _ in range(rng.randint(1, 60)):
            turn(rig)
        rig = watcher.rig = world.wake("s")
    assert run(rig) == "paused"
    state = rig.state
    assert state.recovery.crashes == crashes and len(watcher.fixed) == 1
    assert state.control.reason == "max_turns" and state.context.dropped > 100
    purposes = [e.payload["purpose"] for e in world.store.open("s").replay() if e.type == "model_request"]
    assert purposes.count("statement") >= crashes - 1


def test_the_same_requests_come_from_a_harness_that_remembers_nothing(monkeypatch):
    """Caches of a rig change no request: the digests of a run that forgets after every command are the same."""
    few = {"max_rounds": 12, "keep_rounds": 6}
    monkeypatch.setattr(Talker, "tools", ("look", "fail", "remember"))  # what recall shows has ids of requests in it
    _, world, _ = conversation(4, 8_000, 60, few)
    _, again, rig = accepted(4, 8_000, 60, few)
    while not isinstance(turn(rig), Rest):
        rig.recorder.commit()
        rig = rig.model.check.rig = again.forget(rig)
    assert digests(again) == digests(world) and len(digests(world)) == 60


def digests(world):
    return [e.payload["digest"] for e in world.store.open("s").replay() if e.type == "model_request"]


def test_a_goal_larger_than_the_window_pauses_and_says_so():
    _, world, rig = conversation(5, 500, 10, {})
    paused = list(world.store.open("s").replay())[-1]
    assert paused.payload["reason"] == "context" and "window of 500" in paused.payload["detail"]
    assert rig.state.turns == 0


def test_an_answer_larger_than_the_window_pauses_instead_of_passing_it():
    watcher, world, _ = conversation(6, 4_000, 60, {}, longest=20_000)
    events = list(world.store.open("s").replay())
    assert events[-1].payload["reason"] == "context"
    assert watcher.requests > 0 and GOAL in json.dumps(events[0].payload, ensure_ascii=False).replace(
        "\\n", "\n"
    ).replace('\\"', '"')
