"""What the model is told after a crash: ``statement``, ``synthetic_error`` or ``nothing``, each a class of its own.

``statement`` is the one to use. The others are what is found elsewhere, here for comparison only: how often does the
model repeat a call, how often does it finish. None of them decides about effects: those are verified under each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentlab.errors import UnknownName
from agentlab.session.state import Call, State

INTERRUPTED = "the harness was restarted while this ran; it was interrupted and its outcome is unknown"


class Strategy(Protocol):
    """What of the context is kept, what is told, and what happens to calls without a result."""

    @property
    def name(self) -> str: ...

    def purifies(self) -> bool:
        """Whether scratch is replaced by confirmed facts (a round in progress stays)."""
        ...

    def asks(self, state: State) -> bool:
        """Whether the model has to say where it is before it may act."""
        ...

    def interrupts(self, call: Call) -> str | None:
        """The error with which an open call is answered instead of being carried out, or None."""
        ...


class Statement:
    """Verified facts instead of the history; the model says where it is, and that is checked against the log."""

    name = "statement"

    def purifies(self) -> bool:
        return True

    def asks(self, state: State) -> bool:
        return state.turns > 0

    def interrupts(self, call: Call) -> str | None:
        return None


class Nothing:
    """As if nothing had happened: the history as it was, open calls are carried out, no word of the crash."""

    name = "nothing"

    def purifies(self) -> bool:
        return False

    def asks(self, state: State) -> bool:
        return False

    def interrupts(self, call: Call) -> str | None:
        return None


class SyntheticError(Nothing):
    """The history as it was, and each call without a result gets an error that says it was interrupted."""

    name = "synthetic_error"

    def interrupts(self, call: Call) -> str | None:
        known = call.effect == "builtin" or call.superseded or call.status not in ("requested", "started", "lost")
        return None if known else INTERRUPTED


STRATEGIES: Mapping[str, Strategy] = {s.name: s for s in (Statement(), SyntheticError(), Nothing())}
"""Every strategy by name."""


def strategy_named(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        UnknownName: there is none.
    """
    found = STRATEGIES.get(name)
    if found is None:
        raise UnknownName("strategy", name, STRATEGIES)
    return found
