"""Ports that die with their incarnation: after a simulated death each of them raises, and a late use is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentlab.crashpoints import SimulatedDeath


class Life:
    """The life of one incarnation. ``late`` lists uses of its ports after its death."""

    __slots__ = ("alive", "late")

    def __init__(self) -> None:
        self.alive = True
        self.late: list[str] = []

    def check(self, what: str) -> None:
        """Raise when the incarnation is dead."""
        if not self.alive:
            self.late.append(what)
            raise SimulatedDeath(f"{what} after death")


class Mortal:
    """A port of one incarnation: the same calls, as long as it lives. ``touched`` is told of every call."""

    def __init__(self, port: Any, name: str, life: Life, touched: Callable[[], None] | None = None) -> None:
        self.__dict__["_mortal"] = (port, name, life, touched)

    def __getattr__(self, attribute: str) -> Any:
        port, name, life, touched = self.__dict__["_mortal"]
        found = getattr(port, attribute)
        if not callable(found):
            life.check(f"{name}.{attribute}")
            return found

        def call(*args: Any, **named: Any) -> Any:
            life.check(f"{name}.{attribute}")
            if touched is not None:
                touched()
            value = found(*args, **named)
            # What a provider hands out belongs to the same incarnation.
            return Mortal(value, "sandbox", life, touched) if attribute in ("provision", "attach") else value

        self.__dict__[attribute] = call
        return call
