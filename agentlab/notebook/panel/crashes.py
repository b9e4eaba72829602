"""Crashes as they are survived: the four steps of a recovery with their durations, and what each crash cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.events import Event

CRASHES = 50
STEPS = ("load", "rebuild", "verify", "statement")
"""The four steps of a recovery, in order."""
_BEFORE = ("harness_died", "fault_injected")


@dataclass
class Crash:
    """One death and what came of it. ``seconds`` is None while the recovery goes on.

    ``steps``: (outcome, milliseconds) by name. ``spent_*`` is what the model calls of the recovery itself cost,
    ``at_risk`` are tokens of a call that the death cut, ``superseded`` events that count no more.
    """

    target: str
    seq: int
    began_ts: int
    cause: str = ""
    steps: dict[str, tuple[str, float]] = field(default_factory=dict)
    plan: tuple[str, ...] = ()
    lost: str = ""
    lost_steps: int = 0
    redone: int = 0
    verified: list[str] = field(default_factory=list)
    spent_tokens: int = 0
    spent_microusd: int = 0
    model_calls: int = 0
    at_risk: int = 0
    superseded: int = 0
    seconds: float | None = None

    def pay(self, tax: Mapping[str, float]) -> None:
        """Take over what the harness itself put on record as the cost of this crash."""
        if tax:
            self.spent_tokens, self.spent_microusd = int(tax.get("tokens", 0)), int(tax.get("cost_microusd", 0))
            self.model_calls, self.at_risk = int(tax.get("model_calls", 0)), int(tax.get("at_risk_tokens", 0))
            self.redone = int(tax.get("commands_again", 0)) + int(tax.get("tool_calls", 0))
            self.superseded = int(tax.get("events_superseded", 0))

    @property
    def over(self) -> bool:
        """Whether the session goes on after it."""
        return self.seconds is not None


class CrashWatch:
    """Finds crashes in events as they land."""

    def __init__(self) -> None:
        self.crashes: deque[Crash] = deque(maxlen=CRASHES)
        self.found = 0
        self._alive_ts = 0
        self._step_ts = 0
        self._causes: dict[str, str] = {}
        self._open: dict[str, Crash] = {}

    def take(self, event: Event) -> None:
        """Take one event in."""
        p = event.payload
        if event.type == "fault_injected":
            self._fault(p)
        elif event.type == "harness_woken":
            if p["reason"] in ("crash", "takeover"):
                self._begin("harness", event, self._alive_ts or event.ts, str(p["reason"]))
        elif event.type == "sandbox_lost":
            self._begin("sandbox", event, event.ts, str(p["reason"]))
        elif event.type == "sandbox_restored":
            self._end("sandbox", event)
        elif event.type == "recovery_completed":
            self._end("harness", event)
        else:
            self._during(event)
        if event.type not in _BEFORE:
            self._alive_ts = event.ts

    def _fault(self, p: Any) -> None:
        target = "sandbox" if str(p["target"]).startswith("sandbox") else "harness"
        words = str(p.get("point") or f"{p['action']} {p['fault']}")
        crash = self._open.get(target)
        if crash is not None and not crash.steps:  # the mark is written after the wake
            crash.cause = words
        else:
            self._causes[target] = words

    def _begin(self, target: str, event: Event, began_ts: int, otherwise: str) -> None:
        crash = Crash(target, event.seq, began_ts, self._causes.pop(target, "") or otherwise[:80])
        self.crashes.append(crash)
        self.found += 1
        self._open[target] = crash
        self._step_ts = event.ts

    def _end(self, target: str, event: Event) -> None:
        crash = self._open.pop(target, None)
        if crash is None:
            return
        crash.seconds = max(0.0, (event.ts - crash.began_ts) / 1e6)
        if target == "harness":
            crash.lost_steps = int(event.payload.get("lost_steps") or 0)
            crash.pay(event.payload.get("tax") or {})
        else:
            crash.redone = max(crash.redone, len(event.payload.get("rerun") or ()))

    def _during(self, event: Event) -> None:
        for crash in self._open.values():
            if event.type == "execution_rerun":
                crash.redone += 1
            elif event.type == "effect_verified":
                crash.verified.append(f"{event.tool_name or event.payload['tool']}: {event.payload['outcome']}")
            elif event.type == "model_response":
                crash.model_calls += 1
                crash.spent_tokens += (event.input_tokens or 0) + (event.output_tokens or 0)
                crash.spent_microusd += event.cost_microusd or 0
        harness = self._open.get("harness")
        if harness is None:
            return
        if event.type == "recovery_started":
            harness.plan = tuple(map(str, event.payload["plan"]))
            harness.lost = _words(event.payload.get("lost"))
        elif event.type == "recovery_step":
            took = event.duration_ms or event.payload.get("duration_ms") or (event.ts - self._step_ts) / 1000
            harness.steps[str(event.payload["step"])] = (str(event.payload["outcome"]), float(took))
            self._step_ts = event.ts


def _words(value: Any) -> str:
    if not value:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(found)}" for key, found in value.items() if found)
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    return str(value)
