"""What a lost sandbox cost: until it was restored, and nothing when it was not needed again."""

from __future__ import annotations

from pathlib import Path

from agentlab.events import Draft
from agentlab.lab.costs import crash_costs
from agentlab.log import ParquetStore
from agentlab.query import Query
from tests.query.stories import Story


def lose(story: Story) -> int:
    gone = {"sandbox_id": "sb", "reason": "gone", "unsaved": 0}
    return story.add(Draft("sandbox_lost", gone, error_type="SandboxGone"))[0].seq


def test_a_sandbox_that_is_not_restored_costs_nothing_more(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    story = Story(store, "a", sandbox=True)
    story.call("clean")
    seq = lose(story)
    for number in range(5):
        story.call("think", number, ms=5000.0)
    story.end()
    (cost,) = crash_costs(story.events)
    assert (cost.target, cost.at_seq, cost.seconds, cost.model_calls, cost.tokens) == ("sandbox", seq - 1, 0.0, 0, 0)
    row = Query(store).sql("FROM recoveries").iloc[0]
    assert (row.seq, row.completed, row.model_calls, row.tokens) == (seq, False, 0, 0)
    assert row.isna()[["end_seq", "seconds", "sandbox_s"]].all()


def test_a_sandbox_lost_again_before_it_was_restored(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    story = Story(store, "a", sandbox=True)
    first = lose(story)
    story.now_us += 3_000_000
    story.lose_sandbox(again=2)
    costs = crash_costs(story.events)
    rows = Query(store).sql("FROM recoveries ORDER BY seq")
    assert [c.target for c in costs] == ["sandbox", "sandbox"]
    assert [c.seconds for c in costs] == [round(s, 3) for s in rows.seconds]
    assert costs[0].seconds > 3.0 > costs[1].seconds > 0.0
    assert [c.commands_again for c in costs] == rows.commands_again.tolist() == [0, 2]
    assert rows.completed.tolist() == [False, True] and rows.end_seq[0] == rows.seq[1] > first
