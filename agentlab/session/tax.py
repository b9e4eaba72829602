"""The recovery tax: what is spent again because of a crash, kept apart from useful work. Pure, from events alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from agentlab.events import Event
from agentlab.session.superseding import is_superseded, ranges


@dataclass(frozen=True, slots=True)
class Tax:
    """What one crash cost beyond the work itself.

    ``seconds`` from the last event before the death to the end of the recovery. ``model_calls``, ``tokens`` and
    ``cost_microusd`` (millionths of a US dollar) were spent on the recovery's own questions and on answers that were
    given up; ``at_risk_tokens`` were reserved for a call that the death cut: nobody knows whether they were spent.
    ``tool_calls`` had their results given up, ``commands_again`` ran again in a new workspace. ``bytes`` were put
    back into a workspace; ``events_superseded`` count no more.
    """

    seconds: float = 0.0
    model_calls: int = 0
    tokens: int = 0
    at_risk_tokens: int = 0
    cost_microusd: int = 0
    tool_calls: int = 0
    commands_again: int = 0
    bytes: int = 0
    events_superseded: int = 0

    def __add__(self, other: Tax) -> Tax:
        return Tax(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Tax)})

    def to_json(self) -> dict[str, float]:
        """The amounts as plain data."""
        data: dict[str, float] = asdict(self)
        data["seconds"] = round(self.seconds, 6)
        return data


QUIET_DEATH = frozenset({"harness_died", "fault_injected"})
"""What others write between a death and the next opening: the time of a death is that of the event before."""


def tax_of(span: Sequence[Event], before: Sequence[Event], given_up: Iterable[Event] = ()) -> Tax:
    """The tax of a recovery.

    ``span`` are the events from the opening (or the loss of a sandbox) to the end of the recovery, ``before`` the ones
    that came before it (the newest few are enough to see a model call that was cut), ``given_up`` those that a
    ``restored_to`` in the span superseded.
    """
    last = next((e for e in reversed(before) if e.type not in QUIET_DEATH), span[0])
    own = [e for e in span if e.type == "model_response"]
    lost = _first_time(given_up)
    lost_answers = [e for e in lost if e.type == "model_response"]
    return Tax(
        seconds=max(0.0, (span[-1].ts - last.ts) / 1e6),
        model_calls=len(own) + len(lost_answers),
        tokens=sum(_tokens(e) for e in (*own, *lost_answers)),
        at_risk_tokens=_cut(before),
        cost_microusd=sum(e.cost_microusd or 0 for e in (*own, *lost)),
        tool_calls=sum(e.type in ("tool_result", "tool_error") and not _reused(e) for e in lost),
        commands_again=sum(e.type == "execution_rerun" for e in span),
        bytes=sum(int(e.payload.get("bytes") or 0) for e in span if e.type == "sandbox_restored"),
        events_superseded=len(lost),
    )


def _first_time(given_up: Iterable[Event]) -> list[Event]:
    """Without what an earlier return to a checkpoint had given up already: that is the tax of an earlier crash."""
    events = list(given_up)
    aside = ranges(events)
    return [event for event in events if not is_superseded(event.seq, aside)]


def _tokens(event: Event) -> int:
    return (event.input_tokens or 0) + (event.output_tokens or 0)


def _reused(event: Event) -> bool:
    return bool(event.payload.get("reused"))


def _cut(before: Sequence[Event]) -> int:
    """Tokens reserved for a request that had no answer when the events ended."""
    for event in reversed(before):
        if event.type in ("model_response", "model_error", "harness_woken", "session_paused"):
            return 0
        if event.type == "model_request":
            reserved: Mapping[str, int] = event.payload.get("reserved") or {}
            return int(reserved.get("input_tokens", 0)) + int(reserved.get("output_tokens", 0))
    return 0
