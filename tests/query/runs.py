"""Whole runs: a short one with every kind of trouble, and one of thousands of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentlab.events import Draft
from agentlab.log import ParquetStore
from tests.query.stories import Story


def short(store: ParquetStore, session_id: str = "report-1", **options: Any) -> Story:
    """Five steps; a harness death with a pending effect, one in the middle of a call, and a lost sandbox."""
    story = Story(store, session_id, sandbox=True, **options)
    for number in range(1, 6):
        story.begin_step()
        story.call("load_table", number)
        story.call("clean", number, error="ValueError" if number == 2 else None)
        if number == 2:
            story.call("clean", number)
            story.crash("harness@tool_result")
        if number == 3:
            story.lose_sandbox()
            for _ in range(3):
                story.call("check", "same")
            story.add(
                Draft(
                    "guard_verdict",
                    {"rule": "same_call", "evidence": [70, 75], "action": "nudge", "message": "you repeat yourself"},
                    step=3,
                )
            )
        story.end_step()
        story.checkpoint()
    story.effect("send", outcome="pending")
    story.crash("harness@effect.reply", verify="completed")
    story.end()
    return story


def long(store: ParquetStore, session_id: str = "long-1", steps: int = 5000, seed: int = 3) -> Story:
    """Many steps of one call each, with loops, errors and rare deaths; written as one segment."""
    limits = {"input_tokens": 5_000_000, "cost_microusd": 18_000_000, "tool_calls": steps + 500}
    story = Story(store, session_id, limits=limits, seed=seed, batch=True, sandbox=True)
    tools: Sequence[str] = ("search", "read_file", "edit_file", "run_tests", "fetch")
    for number in range(steps):
        if number % 10 == 0:
            story.begin_step()
        if number % 60 == 0:
            story.scratch = 300
            if number:
                story.add(
                    Draft(
                        "context_compacted",
                        {
                            "dropped": 60,
                            "kept": {"from_round": number},
                            "tokens_before": 3900,
                            "tokens_after": 300,
                            "strategy": "window",
                        },
                    )
                )
        looping = 0 <= number - steps * 2 // 5 < 40 or 0 <= number - steps * 7 // 10 < 12
        tool = "run_tests" if looping else tools[story.rng.randrange(len(tools))]
        story.call(tool, "stuck" if looping else number, error="Timeout" if story.rng.random() < 0.04 else None)
        if number % 10 == 9:
            story.end_step()
            if number % 50 == 49:
                story.checkpoint("every 5 steps")
        if number % 1250 == 1249:
            story.crash()
        if number == steps * 3 // 5:
            story.lose_sandbox()
    story.end()
    story.flush()
    return story
