"""The processes that agentlab owns for a lab, from the record files that keepers write, and ending the stray ones."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab import process

AWAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Owned:
    """A process that a keeper has started (or the keeper itself, whose ``session`` is None).

    ``keeper`` and ``owner`` are process records of those above it; ``started_at_us`` is in microseconds, UTC.
    """

    kind: str
    session: str | None
    record: Mapping[str, Any]
    keeper: Mapping[str, Any]
    owner: Mapping[str, Any]
    started_at_us: int
    path: Path

    @property
    def pid(self) -> int:
        return int(self.record["pid"])

    @property
    def start_time(self) -> str:
        return str(self.record["start_time"])

    @property
    def alive(self) -> process.Liveness:
        """``alive``, ``dead``, or ``unknown`` for a process of another host; looked up anew each time."""
        return process.liveness(self.record)


def owned(lab: Path | str) -> list[Owned]:
    """Every recorded process of ``lab``, dead ones too, ordered by start. Unreadable files are left out."""
    found = []
    for path in (Path(lab) / "run").glob("*.json"):
        try:
            entry = json.loads(path.read_text("utf-8"))
            fields = {name: entry[name] for name in ("kind", "session", "record", "keeper", "owner", "started_at_us")}
            one = Owned(**fields, path=path)
            found.append((one.started_at_us, one.pid, one))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # being written or removed, or not ours
    return [one for _, _, one in sorted(found, key=lambda item: item[:2])]


def reap(lab: Path | str, *, orphans_only: bool = False) -> list[Owned]:
    """SIGKILL recorded processes of this host whose keeper or owner is dead, and remove the records of dead ones.

    Only a process whose start time matches its record is signalled, with its group. ``orphans_only`` spares those
    whose keeper lives: it is ending them, with grace. Returns those that were killed, after their death.
    """
    killed = []
    for one in owned(lab):
        stray = "dead" in (process.liveness(one.keeper), "alive" if orphans_only else process.liveness(one.owner))
        if one.alive == "alive" and stray and process.send_signal(one.record, signal.SIGKILL, group=True):
            killed.append(one)
    for one in killed:
        process.await_death(one.record, AWAIT_S)
    for one in owned(lab):
        # a living keeper removes its own records, and only once the tool hosts of a dead harness are reaped
        if one.alive == "dead" and process.liveness(one.keeper) == "dead":
            one.path.unlink(missing_ok=True)
            one.path.with_name(f"takeover-{one.pid}").unlink(missing_ok=True)
    return killed
