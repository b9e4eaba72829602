"""What a run cost, read from its events alone: the columns of :data:`agentlab.experiments.columns.RUN_COLUMNS`.

Every second between the first event and the last is counted once, under what it was spent on. A crash is placed by the
mark that it left (``fault_injected``); what ran between the last event before it and the mark is lost. Work that a
recovery went back behind (``restored_to``) is lost as well, with the checkpoints in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.comparing.latencies import INPUTS
from agentlab.events import Event

OVERHEAD = frozenset({"checkpoint_written", "snapshot_taken"})
FREE = ("scripted", "recorded")
"""Models that cost nothing where no price is given for them."""
SANDBOX = frozenset({"sandbox_lost", "sandbox_ready", "sandbox_restored", "sandbox_attached", "execution_rerun"})


@dataclass
class _Ledger:
    """Microseconds by what they were spent on, and where each event's share went (so that it can be moved)."""

    spent: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("work", "overhead", "lost", "redone", "recovery"), 0)
    )
    shares: list[tuple[int, str, int]] = field(default_factory=list)

    def put(self, seq: int, what: str, duration: int) -> None:
        self.spent[what] += duration
        if what in ("work", "overhead"):
            self.shares.append((seq, what, duration))

    def lose(self, first: int, last: int) -> None:
        """What was spent on events ``first`` to ``last`` was in vain."""
        kept = []
        for seq, what, duration in self.shares:
            if first <= seq <= last:
                self.spent[what] -= duration
                self.spent["lost"] += duration
            else:
                kept.append((seq, what, duration))
        self.shares = kept


def measure(events: Sequence[Event]) -> dict[str, Any]:
    """The measured columns of one session, as plain numbers.

    Raises:
        ValueError: there is no event.
    """
    if not events:
        raise ValueError("a session without an event can not be measured")
    events = _until_the_end(events)
    ledger = _spend(events)
    seconds = {name: micro / 1e6 for name, micro in ledger.spent.items()}
    calls = _calls(events)
    written = [e for e in events if e.type == "checkpoint_written"]
    snapshots = [e for e in events if e.type == "snapshot_taken"]
    faults = sum(1 for e in events if e.type == "fault_injected" and e.payload["target"] == "harness")
    alone = sum(1 for e in events if e.type == "fault_injected") if not faults else faults
    ended = next((e for e in reversed(events) if e.type == "session_ended"), None)
    outcome = str(ended.payload["outcome"]) if ended is not None else _rest(events)
    return {
        "completed": outcome == "completed",
        "outcome": outcome,
        "total_s": sum(ledger.spent.values()) / 1e6,
        **{f"{name}_s": value for name, value in seconds.items()},
        "faults": alone,
        "checkpoints": len(written),
        "checkpoint_s": seconds["overhead"] / len(written) if written else None,
        "restart_s": seconds["recovery"] / alone if alone else None,
        "interval_s": seconds["work"] / (len(written) + 1),
        **calls,
        "commands_repeated": sum(1 for e in events if e.type == "execution_rerun"),
        "bytes_written": sum(int(e.payload["size_bytes"]) for e in written)
        + sum(int(e.payload["new_bytes"]) for e in snapshots),
        "lost_steps": sum(int(e.payload["lost_steps"]) for e in events if e.type == "recovery_completed"),
    }


def _until_the_end(events: Sequence[Event]) -> Sequence[Event]:
    """What came after the session's end is no part of the run: a crash of a harness that is leaving costs nothing."""
    last = next((n for n in range(len(events), 0, -1) if events[n - 1].type not in INPUTS), 0)
    return events[:last] if last and events[last - 1].type == "session_ended" else events


def _spend(events: Sequence[Event]) -> _Ledger:
    ledger = _Ledger()
    previous, struck = events[0].ts, None
    recovering, filled = False, False
    filling = owed = 0  # a filling is told of at its end, its commands first: what they took is in the first one's gap
    for event in events[1:]:
        if event.type in INPUTS:
            if event.type == "fault_injected":
                at = int(event.payload.get("at_us") or event.ts)
                struck = at if struck is None else struck
            continue
        gap, since = max(0, event.ts - previous), previous
        previous = max(previous, event.ts)
        if struck is not None and event.type in ("harness_woken", "sandbox_lost"):
            lost = min(max(0, struck - since), gap)
            ledger.put(event.seq, "recovery" if recovering else "lost", lost)
            gap -= lost
            struck = None
        if event.type == "harness_woken":
            recovering = recovering or event.payload["reason"] in ("crash", "takeover")
        elif event.type == "restored_to":
            ledger.lose(int(event.payload["superseded_from"]), int(event.payload["superseded_to"]))
        what = _what(event, recovering, filled)
        if event.type == "execution_rerun":
            filling, owed = filling + gap, owed + round((event.duration_ms or 0.0) * 1000)
            continue
        if event.type == "sandbox_restored":
            gap += filling
            again = min(gap, owed)
            ledger.put(event.seq, "redone", again)
            gap, filling, owed, filled = gap - again, 0, 0, True
        ledger.put(event.seq, what, gap)
        if event.type == "recovery_completed":
            recovering = False
    if struck is not None:  # nobody came after the last crash
        ledger.put(events[-1].seq, "recovery" if recovering else "lost", max(0, struck - previous))
        ledger.put(events[-1].seq, "recovery", max(0, events[-1].ts - max(previous, struck)))
    return ledger


def _what(event: Event, recovering: bool, filled: bool) -> str:
    if recovering:
        return "recovery"
    if event.type in OVERHEAD:
        return "overhead"
    if event.type in SANDBOX and filled:
        return "recovery"
    return "work"


def _calls(events: Sequence[Event]) -> dict[str, Any]:
    """Answers of the model, those that a crash cost, and their money.

    A call that was cut is counted at the price of the next answer to the same purpose: it was asked again. Money is None
    where the price of an answer is unknown, which is not nothing.
    """
    gone: set[int] = set()
    for event in events:
        if event.type == "restored_to":
            gone.update(range(int(event.payload["superseded_from"]), int(event.payload["superseded_to"]) + 1))
    answers = repeated = cost = cost_repeated = cut = 0
    asked = recovering = False
    known = True
    for event in events:
        if event.type == "harness_woken":
            cut += asked
            asked, recovering = False, event.payload["reason"] in ("crash", "takeover") or recovering
        elif event.type == "recovery_completed":
            recovering = False
        elif event.type == "model_request":
            asked = True
        elif event.type == "model_error":
            asked = False
        elif event.type == "model_response":
            asked = False
            price = event.cost_microusd or 0
            known = known and (event.cost_microusd is not None or str(event.model).startswith(FREE))
            answers, cost = answers + 1, cost + price
            if recovering or event.seq in gone:
                repeated, cost_repeated = repeated + 1, cost_repeated + price
            else:
                cost_repeated, repeated, cut = cost_repeated + cut * price, repeated + cut, 0
    return {
        "model_calls": answers,
        "model_calls_repeated": repeated + cut,
        "cost_usd": cost / 1e6 if known else None,
        "cost_repeated_usd": cost_repeated / 1e6 if known else None,
    }


def _rest(events: Sequence[Event]) -> str:
    for event in reversed(events):
        if event.type in ("session_paused", "pause_requested"):
            return "crash_loop" if event.payload["reason"] == "crash_loop" else "paused"
        if event.type == "question_asked":
            return "waiting"
    return "gave_up"
