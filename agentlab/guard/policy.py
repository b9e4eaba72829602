"""How patient the guard is: thresholds, rules in force, and what it does in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from agentlab.errors import BadDefinition
from agentlab.guard.normalise import VOLATILE

RULES = ("repeat", "cycle", "error_class", "similar")


class Patience(NamedTuple):
    """Occurrences until a nudge, and until the final action."""

    nudge: int
    final: int


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """A frozen specification; every number is a count of calls.

    ``final`` is what follows a nudge that did not help. ``max_gap`` other calls may stand between two occurrences of
    a stuck call. Patience, by what repeats:

    * ``same``: one call with an equal result; ``fails``: with an equal failure; ``filled`` is added to both when
      other calls stand between;
    * ``waiting``: something is said to be under way; ``polling``: the model sleeps between looks, or the source was
      seen to change; ``passing``: failures that pass by themselves;
    * ``reworked``: an equal failure after each of several different changes; ``recheck``: a look after each of them
      (a limit beyond the window is never reached);
    * ``jittered``: one class of error under changing arguments; ``similar``: like arguments with one result;
      ``fruitless``: any arguments that find nothing.

    ``rounds_per_step`` None means no cap.
    """

    enabled: bool = True
    rules: tuple[str, ...] = RULES
    final: Literal["pause", "stop"] = "pause"
    rounds_per_step: int | None = 20
    window: int = 64
    max_gap: int = 9
    max_cycle: int = 8
    same: Patience = Patience(4, 6)
    fails: Patience = Patience(3, 5)
    filled: int = 1
    waiting: Patience = Patience(30, 60)
    polling: Patience = Patience(12, 24)
    passing: Patience = Patience(7, 10)
    reworked: Patience = Patience(6, 9)
    jittered: Patience = Patience(4, 6)
    similar: Patience = Patience(5, 7)
    fruitless: Patience = Patience(7, 10)
    recheck: Patience = Patience(10, 65)
    volatile: tuple[str, ...] = VOLATILE

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` is its inverse."""
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in out.items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> GuardPolicy:
        """A policy from JSON; what is left out keeps its default.

        Raises:
            BadDefinition: an unknown field, rule or final action, patience that ends before it begins, or a value of
                another kind than the default.
        """
        known = {f.name: f for f in fields(GuardPolicy)}
        made: dict[str, Any] = {}
        for name, value in data.items():
            if name not in known:
                raise BadDefinition(f"the guard has no setting {name!r}; known: {', '.join(sorted(known))}")
            made[name] = _setting(name, known[name].default, value)
        policy = GuardPolicy(**made)
        wrong = [r for r in policy.rules if r not in RULES]
        if wrong or policy.final not in ("pause", "stop"):
            raise BadDefinition(
                f"guard: rules are {', '.join(RULES)}, final is pause or stop; got {wrong or policy.final!r}"
            )
        return policy


def _setting(name: str, default: Any, value: Any) -> Any:
    """A value of the kind that the default has; lists become tuples.

    Raises:
        BadDefinition: it is of another kind, or makes no sense.
    """
    if isinstance(default, Patience):
        if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(map(_whole, value)):
            raise BadDefinition(f"guard setting {name!r} is two whole numbers, nudge and final, not {value!r}")
        if not 1 <= value[0] <= value[1]:
            raise BadDefinition(f"guard setting {name!r}: 1 <= nudge <= final does not hold for {tuple(value)}")
        return Patience(*value)
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
            raise BadDefinition(f"guard setting {name!r} is a list of names, not {value!r}")
        return tuple(value)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise BadDefinition(f"guard setting {name!r} is true or false, not {value!r}")
    elif isinstance(default, int) and not (name == "rounds_per_step" and value is None):
        least = 0 if name in ("filled", "max_gap") else 1
        if not _whole(value) or value < least:
            raise BadDefinition(f"guard setting {name!r} is a whole number from {least} on, not {value!r}")
    return value


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
