"""How long things take in a simulated run: measured in a lab's own history, or given.

A latency is the time before an event since the one before it, by kind and what the event is about. Two things are kept
apart, as marks of the key: the first event of its kind in a process (``cold``: code is loaded, a tool host started), and
an event right after a checkpoint (what the checkpoint still had to do, its pointer, is in its time). Gaps that a crash
cut are not measured: that shortens a latency by about its variance over the mean time between failures.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.errors import BadDefinition
from agentlab.events import Event, canonical, digest
from agentlab.events.kinds import KINDS

Key = tuple[str, ...]
"""Kind of event, what it is about, and marks: :data:`COLD`, :data:`AFTER`."""
COLD = "cold"
AFTER = "after checkpoint"

INPUTS = frozenset(name for name, kind in KINDS.items() if kind.cls == "input")
RESTS = frozenset({"session_paused", "session_queued", "question_asked"})
MOST = 2000
"""Measured values kept of each kind; more say nothing new."""

ASSUMED: Mapping[str, float] = {
    "": 0.0004,
    "model_response": 3.0,
    "tool_result": 0.3,
    "tool_error": 0.3,
    "effect_completed": 0.3,
    "effect_verified": 0.3,
    "step_validated": 0.05,
    "task_validated": 0.05,
    "execution_rerun": 0.3,
    "snapshot_taken": 0.005,
    "checkpoint_written": 0.005,
    "sandbox_ready": 0.15,
    "sandbox_attached": 0.01,
    "sandbox_restored": 0.01,
    "harness_woken": 0.3,
}
"""Seconds that are assumed where nothing was measured or given; the first is for every other kind."""


@dataclass(frozen=True)
class Latencies:
    """Seconds by kind of event. ``source`` says in words where they come from."""

    measured: Mapping[Key, Sequence[float]] = field(default_factory=dict)
    source: str = "assumed"
    _known: dict[Key, Sequence[float]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def digest(self) -> str:
        """Digest of the values: runs that draw from others are other runs."""
        return digest(canonical({"\n".join(key): list(values) for key, values in self.measured.items()}))

    def to_json(self) -> dict[str, Any]:
        """The latencies as plain data."""
        return {"source": self.source, "measured": [[list(key), list(of)] for key, of in self.measured.items()]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Latencies:
        """The latencies that :meth:`to_json` gave."""
        return cls({tuple(key): tuple(values) for key, values in data["measured"]}, str(data["source"]))

    def of(self, key: Key) -> Sequence[float]:
        """Values to draw from: of this very key, of the kind whatever it is about, or what is assumed."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look(key)
        return found

    def _look(self, key: Key) -> Sequence[float]:
        kind, about, marks = key[0], key[1], key[2:]
        kin = _KIN.get(kind)
        for pair in ((kind, about), (kind, ""), *(kin(about) if kin else ())):
            alike = {known[2:]: values for known, values in self.measured.items() if known[:2] == pair}
            if alike:
                return _nearest(alike, marks)
        same = [value for known, values in self.measured.items() if known[0] == kind for value in values]
        if same:
            return same[:MOST]
        other = self.measured.get(("",))
        if other is not None and kind not in ASSUMED:
            return other
        return (ASSUMED.get(kind, ASSUMED[""]),)

    @classmethod
    def given(
        cls, *, model_s: Any = None, tool_s: Any = None, tools_s: Mapping[str, Any] | None = None,
        checkpoint_s: Any = None, restart_s: Any = None, sandbox_s: Any = None, other_s: Any = None,
    ) -> Latencies:  # fmt: skip
        """Latencies by hand, each a number of seconds or several to draw from.

        ``model_s`` of one answer, ``tool_s`` of one call (``tools_s`` by tool), ``checkpoint_s`` of one checkpoint with
        its snapshot, ``restart_s`` from a crash to the next harness, ``sandbox_s`` of a fresh sandbox, ``other_s`` of
        every event besides. What is left out is assumed (:data:`ASSUMED`).

        Raises:
            BadDefinition: a value is no finite number of at least 0.
        """
        found: dict[Key, Sequence[float]] = {}

        def put(values: Any, *keys: Key) -> None:
            if values is not None:
                found.update(dict.fromkeys(keys, _values(values)))

        put(other_s, ("",))
        put(model_s, ("model_response", "act"), ("model_response", "statement"), ("model_response", "summary"))
        put(tool_s, *((kind, "") for kind in ("tool_result", "tool_error", "effect_completed", "effect_verified")))
        for tool, values in (tools_s or {}).items():
            put(values, ("tool_result", tool), ("tool_error", tool), ("effect_completed", tool))
        if checkpoint_s is not None:
            found[("snapshot_taken", "")] = (0.0,)
        put(checkpoint_s, ("checkpoint_written", ""))
        put(restart_s, ("harness_woken", "crash"))
        put(sandbox_s, ("sandbox_ready", ""))
        return cls(found, "given")

    @classmethod
    def of_history(cls, sessions: Iterable[Sequence[Event]]) -> Latencies:
        """Measured in the events of sessions.

        Raises:
            BadDefinition: there is nothing in them to measure.
        """
        found: dict[Key, list[float]] = defaultdict(list)
        count = 0
        for events in sessions:
            count += 1
            for key, seconds in gaps(events):
                if len(found[key]) < MOST:
                    found[key].append(seconds)
        if not found:
            raise BadDefinition("no session to measure latencies in: run the task once, or give latencies")
        return cls(dict(found), f"measured in {count} session{'s' if count != 1 else ''}")


def _nearest(alike: Mapping[Key, Sequence[float]], marks: Key) -> Sequence[float]:
    """Of values by their marks those with the same marks, else those that are cold or warm as well, else all."""
    if marks in alike:
        return alike[marks]
    close = [values for known, values in alike.items() if (COLD in known) == (COLD in marks)]
    return [value for values in close or alike.values() for value in values][:MOST]


def _values(values: Any) -> Sequence[float]:
    given = tuple(values) if isinstance(values, (list, tuple)) else (values,)
    for value in given:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise BadDefinition(f"a latency is a finite number of seconds of at least 0, not {value!r}")
    if not given:
        raise BadDefinition("latencies to draw from are one or more numbers, not none")
    return tuple(float(value) for value in given)


def about(kind: str, tool: str | None, payload: Mapping[str, Any]) -> str:
    """What tells events of one kind apart as far as their time goes."""
    if tool:
        return tool
    if kind == "snapshot_taken":
        return size_class(int(payload["new_bytes"]))
    word = _ABOUT.get(kind)
    return str(payload.get(word, "")) if word else ""


def size_class(new_bytes: int) -> str:
    """Snapshots of one power of two of new kilobytes are alike: what is packed and written is most of their time."""
    return str(1 + (new_bytes // 1024).bit_length() if new_bytes else 0)


def _nearest_sizes(about: str) -> tuple[Key, ...]:
    near = sorted(range(48), key=lambda size: (abs(size - int(about or 0)), size))
    return tuple(("snapshot_taken", str(size)) for size in near)


_ABOUT = {
    "harness_woken": "reason", "model_request": "purpose", "model_response": "purpose", "model_error": "purpose",
    "step_validated": "step_id", "step_completed": "step_id", "recovery_step": "step",
    "effect_verified": "tool", "effect_completed": "tool", "effect_pending": "tool",
}  # fmt: skip

_KIN: Mapping[str, Callable[[str], tuple[Key, ...]]] = {
    "effect_completed": lambda about: (("tool_result", about), ("tool_result", "")),
    "effect_verified": lambda about: (("effect_completed", about), ("tool_result", about)),
    "tool_error": lambda about: (("tool_result", about),),
    "tool_result": lambda about: (("effect_completed", about), ("tool_result", "")),
    "execution_rerun": lambda about: (("tool_result", about), ("tool_result", "")),
    "model_response": lambda about: (("model_response", "act"),),
    "harness_woken": lambda about: (("harness_woken", "crash"), ("harness_woken", "start")),
    "snapshot_taken": _nearest_sizes,
}  # fmt: skip
"""Kinds whose time says something about another's, nearest first."""


def gaps(events: Sequence[Event]) -> list[tuple[Key, float]]:
    """The seconds before each event, inputs and rests left out; after a crash they count from the crash."""
    found: list[tuple[Key, float]] = []
    previous, struck, before, resting = events[0].ts if events else 0, None, "", False
    filling = 0.0
    seen: set[str] = set()
    for event in events[1:]:
        if event.type in INPUTS:
            if event.type == "fault_injected" and event.payload.get("target") == "harness":
                struck = int(event.payload.get("at_us") or event.ts)
            continue
        woken = event.type == "harness_woken"
        crashed = woken and (struck is not None or event.payload["reason"] in ("crash", "takeover"))
        since = struck if crashed and struck is not None else previous
        seconds = max(0, event.ts - since) / 1e6
        key: Key = (event.type, about(event.type, event.tool_name, event.payload))
        if crashed:
            key = ("harness_woken", "crash")
        if event.type == "execution_rerun":  # told of when the filling is over: its time is in the first one's gap
            again = (event.duration_ms or 0.0) / 1000
            filling, seconds = filling + seconds - again, again
        elif event.type == "sandbox_restored":
            seconds, filling = max(0.0, seconds + filling), 0.0
        if not resting and not (crashed and struck is None):
            found.append((marked(key, seen, before), seconds))
        previous, before = event.ts, event.type
        resting = event.type in RESTS
        if woken:
            struck = None
            seen.clear()
        seen.add(event.type)
    return found


def marked(key: Key, seen: Container[str], before: str) -> Key:
    """A key with its marks: ``seen`` are the kinds that the process has had, ``before`` the event before this one."""
    if key[0] == "harness_woken":
        return key
    cold = () if key[0] in seen else (COLD,)
    return (*key, *cold, AFTER) if before == "checkpoint_written" else (*key, *cold)
