"""What each crash cost, read from the log: time to recover, work done again, steps lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentlab.events import Event
from agentlab.session.superseding import ranges
from agentlab.session.tax import Tax, tax_of


@dataclass(frozen=True, slots=True)
class CrashCost:
    """One death and its recovery.

    ``seconds`` from the last event before the death to the end of the recovery (of a sandbox: from its loss until it is
    restored or lost again; 0 when it was not needed again); ``commands_again`` recorded
    commands run again; ``model_calls`` and ``tokens`` spent on the recovery itself (statement, asking again);
    ``lost_steps`` plan steps that had to be redone. ``tax`` is all that was spent again because of it
    (:class:`agentlab.session.tax.Tax`); ``calls_repeated`` counts calls that the model made again, with equal input,
    between this crash and the next, although they had a result before. Nothing counts twice: what a harness's recovery
    spends on a sandbox that died with it is the harness's, and the sandbox's row says only how long its restoring took.
    """

    target: str
    at_seq: int
    cause: str
    seconds: float
    commands_again: int
    model_calls: int
    tokens: int
    effects_verified: int
    lost_steps: int
    tax: Tax = Tax()
    calls_repeated: int = 0

    def to_json(self) -> dict[str, Any]:
        """The cost as plain data."""
        return {**asdict(self), "tax": self.tax.to_json()}


def crash_costs(events: Sequence[Event]) -> list[CrashCost]:
    """The cost of every death in a session's events, in order."""
    out = []
    recovering = False
    for index, event in enumerate(events):
        if event.type == "harness_woken":
            recovering = event.payload["reason"] in ("crash", "takeover")
            if recovering:
                out.append(_harness(events, index))
        elif event.type == "recovery_completed":
            recovering = False
        elif event.type == "sandbox_lost":
            out.append(_sandbox(events, index, recovering))
    return out


def _harness(events: Sequence[Event], index: int) -> CrashCost:
    before = index - 1
    while before > 0 and events[before].type in ("harness_died", "fault_injected"):
        before -= 1
    span: list[Event] = []
    lost = 0
    for event in events[index:]:
        span.append(event)
        if event.type == "recovery_completed":
            lost = int(event.payload["lost_steps"])
            break
        if event.type == "harness_woken" and event is not events[index]:
            break
    faults = [e.payload.get("point", "") for e in events[before + 1 :][:6] if e.type == "fault_injected"]
    given_up = [e for low, high in ranges(span) for e in events[low - 1 : min(high, index)]]
    return CrashCost(
        target="harness",
        at_seq=events[before].seq,
        cause=str(faults[0]) if faults else str(events[index].payload["reason"]),
        seconds=_seconds(events[before], _last_alive(span)),
        lost_steps=lost,
        tax=tax_of(span, events[max(0, index - 64) : index], given_up),
        calls_repeated=_repeated(events, index),
        **_spent(span),
    )


def _last_alive(span: Sequence[Event]) -> Event:
    """The end of a recovery; of one that another death cut the last sign of life before it: the rest is the other one's."""
    if len(span) == 1 or span[-1].type != "harness_woken":
        return span[-1]
    return next(e for e in reversed(span[:-1]) if e.type not in ("harness_died", "fault_injected"))


def _sandbox(events: Sequence[Event], index: int, recovering: bool) -> CrashCost:
    # Up to its restoring, or to the next loss, which has its own row. One that is never restored was not needed again.
    ends = (i for i, e in enumerate(events[index + 1 :], index + 1) if e.type in ("sandbox_restored", "sandbox_lost"))
    span = events[index : next(ends, index) + 1]
    faults = [e.payload.get("point", "") for e in events[max(0, index - 12) : index] if _hit_sandbox(e)]
    start = events[index - 1] if index else events[index]
    own = () if recovering else span
    return CrashCost(
        target="sandbox",
        at_seq=start.seq,
        cause=str(faults[-1]) if faults else str(events[index].payload["reason"])[:60],
        seconds=_seconds(events[index], span[-1]),
        lost_steps=0,
        tax=tax_of(own, events[index : index + 1]) if own else Tax(),
        **_spent(own),
    )


def _repeated(events: Sequence[Event], index: int) -> int:
    """Calls asked for after the opening at ``index``, and before the next crash, that had a result before it."""
    asked = {e.payload["call_id"]: (e.tool_name, e.input_hash) for e in events[:index] if e.type == "tool_requested"}
    answered = {asked.get(e.payload["call_id"]) for e in events[:index] if e.type == "tool_result"}
    count = 0
    for event in events[index + 1 :]:
        if event.type == "harness_woken" and event.payload["reason"] in ("crash", "takeover"):
            break
        count += event.type == "tool_requested" and (event.tool_name, event.input_hash) in answered
    return count


def total_tax(costs: Iterable[CrashCost]) -> Tax:
    """The tax of a whole session: that of every crash, summed."""
    total = Tax()
    for cost in costs:
        total += cost.tax
    return total


def _hit_sandbox(event: Event) -> bool:
    return event.type == "fault_injected" and str(event.payload.get("target", "")).startswith("sandbox")


def _seconds(first: Event, last: Event) -> float:
    return max(0.0, round((last.ts - first.ts) / 1e6, 3))


def _spent(span: Sequence[Event]) -> dict[str, int]:
    answers = [e for e in span if e.type == "model_response"]
    return {
        "commands_again": sum(1 for e in span if e.type == "execution_rerun"),
        "model_calls": len(answers),
        "tokens": sum((e.input_tokens or 0) + (e.output_tokens or 0) for e in answers),
        "effects_verified": sum(1 for e in span if e.type == "effect_verified"),
    }
