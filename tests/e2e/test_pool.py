"""One budget for two sessions under two owners, in real processes that die: never overdrawn, nothing lost."""

from __future__ import annotations

import pytest

from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.lab import Lab

from . import tasks
from .owner import Owner


def committed(sessions, dimension):
    return sum(s.state.budget.committed(dimension) for s in sessions)


def test_two_owners_two_sessions_one_pool_and_a_kill(tmp_path, until):
    with Lab(tmp_path / "lab") as lab:
        lab.pool.limit(calls=3)  # each session needs two
        mine = lab.create(tasks.task("measure", "write"), crash=["harness@tool_result"])
        other = lab.create(tasks.task("measure", "write"), crash=["harness@model.reply"])
        both = (mine, other)
        with Owner(lab.path) as owner:
            owner.start(other.id)
            mine.start()
            until(lambda: all(s.state.control.status in ("paused", "ended") for s in both), what="both rest")
            words = sorted(s.status().status for s in both)
            assert words == ["completed", "paused"], "there was enough for one and a half"
            assert committed(both, "tool_calls") == 3 and lab.pool().row("tool_calls").left == 0
            short = next(s for s in both if s.status().status == "paused")
            assert short.state.control.reason == "budget" and "the lab's pool" in " ".join(short.locate().evidence)
            assert all(
                any(e.type == "harness_woken" and e.payload["reason"] == "crash" for e in s.events()) for s in both
            )
        steps = short.state.plan.completed
        lab.pool.extend(calls=1)
        until(lambda: not short.state.process or short.status().status == "paused", what="its harness has left")
        assert short.wake(timeout_s=120).status().status == "completed"
        assert [e.type for e in short.events()].count("step_completed") == 2 and steps == 1
        row = lab.pool().row("tool_calls")
        assert (row.used, row.set_aside, row.left, row.limit) == (4, 0, 0, 4)
        assert committed(both, "tool_calls") == 4


def test_what_a_dead_owner_left_is_taken_back_by_whoever_needs_it(tmp_path, until):
    gate = tmp_path / "gate"
    with Lab(tmp_path / "lab") as lab:
        lab.pool.limit(tokens=40_000)
        first = lab.create(tasks.task("gate", tools=(tasks.PURE_GATED,)), params={"gate": str(gate)})
        with Owner(lab.path) as owner:
            owner.start(first.id)
            until((tmp_path / "gate.reached").exists, what="the first one runs")
            had = lab.pool().accounts[first.id]["tokens"]
            spent = first.state.budget.committed("tokens")
            assert had > spent > 0, "a chunk, and not all of it used"
            row, used = lab.pool().row("tokens"), first.state.budget.used_of("tokens")
            assert (row.used, row.set_aside) == (used, had - used) and used > 0, (
                "what is spent does not read as kept back"
            )
        until(lambda: first.status().status == "crashed", what="its owner is gone")
        assert lab.pool().accounts[first.id]["tokens"] == had, "nobody needed it yet"
        after = lab.pool.reclaim().accounts[first.id]["tokens"]
        assert after == first.state.budget.committed("tokens") < had
        gate.touch()
        assert first.wake(timeout_s=120).status().status == "completed", "it draws anew"
        assert lab.pool().row("tokens").used == first.state.budget.committed("tokens")


def test_limits_that_can_not_be_shared(tmp_path):
    lab = Lab(tmp_path / "lab")
    with pytest.raises(UnknownName, match="did you mean"):
        lab.pool.limit(tokns=5)
    with pytest.raises(BadDefinition, match="can not be shared"):
        lab.pool.limit(wall="1h")
    with pytest.raises(UserError, match="share no limit of tokens"):
        lab.pool.extend(tokens=5)
    assert lab.pool.limit(cost=None).rows == ()
    lab.pool.limit(tokens="1M", cost=2.5)
    assert {r.dimension: r.limit for r in Lab(lab.path).pool().rows} == {
        "tokens": 1_000_000,
        "cost_microusd": 2_500_000,
    }
    lab.pool.limit(cost=None)
    assert [r.dimension for r in lab.pool().rows] == ["tokens"]
    assert "1,000,000" in str(lab.pool())
