"""The simulated outside world: what was really done there, and what known adapters do in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect that the outside executed. ``operation`` says what was asked for, whoever asked and how often."""

    operation: str
    key: str
    incarnation: int


class Outside:
    """A ledger of executed effects and a store of notes. Copies are independent."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.notes: dict[str, Any] = {}
        self.incarnation = 0
        self.requests = 0
        """Every request that arrived, executed or answered from the record."""

    def copy(self) -> Outside:
        """An independent outside in the same state."""
        other = Outside()
        other.entries, other.notes = list(self.entries), dict(self.notes)
        other.incarnation, other.requests = self.incarnation, self.requests
        return other

    def counts(self) -> Counter[str]:
        """How often each operation was executed."""
        return Counter(entry.operation for entry in self.entries)

    def execute(self, operation: str, key: str) -> tuple[int, bool]:
        """Execute an operation, once for equal keys; its number, and whether it had been executed before."""
        self.requests += 1
        if key:
            for number, entry in enumerate(self.entries, 1):
                if entry.key == key:
                    return number, True
        self.entries.append(Entry(operation, key, self.incarnation))
        return len(self.entries), False

    # --- as an outbox ---

    def deliver(self, message: str, key: str) -> dict[str, Any]:
        number, replayed = self.execute(f"deliver {message}", key)
        return {"id": number, "replayed": replayed}

    def find(self, key: str) -> dict[str, Any] | None:
        for number, entry in enumerate(self.entries, 1):
            if key and entry.key == key:
                return {"id": number}
        return None

    def save(self, name: str, value: Any) -> None:
        self.notes[name] = value

    def load(self, name: str) -> Any:
        return self.notes.get(name)


def adapters(outside: Callable[[], Outside]) -> dict[str, Callable[..., Any]]:
    """In-memory stand-ins of adapters that would need a server, by dotted name; ``outside`` gives the current world's."""

    def notify_region_report(message: str, idempotency_key: str = "") -> dict[str, Any]:
        number, _ = outside().execute(f"notify {message}", idempotency_key)
        return {"id": number, "delivered": True}

    def verify_notification(key: str) -> dict[str, Any]:
        found = outside().find(key)
        if found is None:
            return {"outcome": "not_done", "evidence": f"the ledger has no {key}"}
        result = {"id": found["id"], "delivered": True}
        return {"outcome": "completed", "result": result, "evidence": f"the ledger's line {found['id']} has {key}"}

    return {
        "agentlab.effects.notify:notify_region_report": notify_region_report,
        "agentlab.effects.notify:verify_notification": verify_notification,
    }
