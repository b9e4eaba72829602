"""What a panel knows of a session: a bounded digest of its events, taken in as they land.

Everything in it comes from the log, so a panel that is made anew after a kernel restart shows the same. Nothing in it
grows with the session: the newest marks, lines, checkpoints and crashes are kept, older ones are counted.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentlab.counting import counted
from agentlab.events import Event
from agentlab.lab.lines import event_line
from agentlab.notebook.panel.alerts import Alerts
from agentlab.notebook.panel.crashes import Crash, CrashWatch
from agentlab.notebook.panel.lanes import LANES, lane_of, sign_of

MARKS = 250
LINES = 2000
CHECKPOINTS = 400
PAYLOAD = 420
"""Characters of a payload that are shown at a mark."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An event in the timeline: its lane, its sign, the event in a line, and the beginning of its payload."""

    seq: int
    kind: str
    lane: int
    sign: str
    line: str
    payload: str


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint as one row. ``ts`` in microseconds, ``cost_ms`` the time it took, ``size`` of the state in bytes."""

    seq: int
    cursor: int
    label: str
    reason: str
    ts: int
    cost_ms: float
    size: int
    holds: str
    step: int


@dataclass
class Digest:
    """The bounded digest of one session."""

    seq: int = 0
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=MARKS))
    lines: deque[tuple[int, str, str]] = field(default_factory=lambda: deque(maxlen=LINES))
    """The newest lines: (seq, kind, line)."""
    checkpoints: deque[CheckpointRow] = field(default_factory=lambda: deque(maxlen=CHECKPOINTS))
    checkpoints_written: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Events of each lane."""
    input_tokens: int = 0
    output_tokens: int = 0
    microusd: int = 0
    decision: str = ""
    effects: int = 0
    started_ts: int = 0
    ts: int = 0
    watch: CrashWatch = field(default_factory=CrashWatch)
    alerts: Alerts = field(default_factory=Alerts)
    lock: threading.RLock = field(default_factory=threading.RLock, compare=False, repr=False)
    """Held while an event is taken in, and by readers on other threads."""
    _snapshot: tuple[int, int] = (0, 0)

    @property
    def crashes(self) -> deque[Crash]:
        """The newest crashes, oldest first."""
        return self.watch.crashes

    def take(self, events: Iterable[Event]) -> None:
        """Take events in, in order; those already taken are passed over."""
        for event in events:
            if event.seq > self.seq:
                with self.lock:
                    self._take(event)

    def _take(self, event: Event) -> None:
        lane = lane_of(event.type)
        line = event_line(event)
        self.seq, self.ts = event.seq, event.ts
        self.started_ts = self.started_ts or event.ts
        self.counts[LANES[lane].name] += 1
        self.marks.append(Mark(event.seq, event.type, lane, sign_of(event), line, event.payload_text[:PAYLOAD]))
        self.lines.append((event.seq, event.type, line))
        self.input_tokens += event.input_tokens or 0
        self.output_tokens += event.output_tokens or 0
        self.microusd += event.cost_microusd or 0
        if event.type == "decision":
            self.decision = f"{event.payload['action']}: {event.payload['why']}"
        elif event.type == "effect_completed":
            self.effects += 1
        elif event.type == "snapshot_taken":
            self._snapshot = (int(event.payload["files"]), int(event.payload["bytes"]))
        elif event.type == "checkpoint_written":
            self.checkpoints_written += 1
            self.checkpoints.append(self._checkpoint(event))
        self.watch.take(event)
        self.alerts.take(event)

    def _checkpoint(self, event: Event) -> CheckpointRow:
        p = event.payload
        parts = [f"state at {p['cursor']}"]
        if p.get("snapshot"):
            files, size = self._snapshot
            parts.append(f"{counted(files, 'file')}, {size_text(size)}")
        if self.effects:
            parts.append(counted(self.effects, "effect"))
        return CheckpointRow(
            seq=event.seq,
            cursor=int(p["cursor"]),
            label=str(p.get("label") or ""),
            reason=str(p["reason"]),
            ts=event.ts,
            cost_ms=event.duration_ms or 0.0,
            size=int(p["size_bytes"]),
            holds=" · ".join(parts),
            step=event.step or 0,
        )


def size_text(size: float) -> str:
    """Bytes for a person."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def time_text(seconds: float) -> str:
    """A duration for a person."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
