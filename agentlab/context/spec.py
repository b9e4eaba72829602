"""The context specification: which strategies make scratch smaller, how anchors are found, when drift is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentlab.errors import BadDefinition, UnknownName

STRATEGY_NAMES = ("results", "drop_results", "window", "conclusions", "model")
"""What can be combined with ``+``; see :mod:`agentlab.context.strategies`."""


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """How a session keeps its context small and on course. Frozen; a task gives it as ``context={…}``.

    ``strategy`` names what is applied, in this order, until scratch fits: ``results`` (old tool results are shortened
    to ``result_chars`` characters), ``drop_results`` (they are reduced to a line), ``window`` (rounds before the
    newest ``keep_rounds`` go, whole), ``conclusions`` (what went is summed up by rule), ``model`` (it is summed up
    by ``model``, by rule when that fails). The results of the newest ``keep_results`` rounds stay whole.

    Scratch is compacted when it holds ``max_rounds`` rounds or more than the share ``high`` of the room that the
    window leaves beside the other layers, down to the share ``low``. ``anchors`` is how many facts may be pinned;
    ``extract`` finds some by rule. Drift is measured over ``drift_rounds`` rounds (0: not at all); past ``drift_threshold`` the task is
    put on top again. ``judge`` names a model that is asked every ``judge_every`` rounds as well. A model is
    ``"session"`` (the session's own) or a model's name.
    """

    strategy: str = "results+window+conclusions"
    max_rounds: int = 60
    keep_rounds: int = 30
    keep_results: int = 6
    result_chars: int = 400
    high: float = 0.8
    low: float = 0.5
    anchors: int = 64
    extract: bool = True
    drift_rounds: int = 4
    drift_threshold: float = 0.85
    model: str = "session"
    judge: str = ""
    judge_every: int = 5

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the strategies, in order."""
        return tuple(self.strategy.split("+"))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` is its inverse."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ContextSpec:
        """A specification from JSON; what is left out keeps its default.

        Raises:
            UnknownName: a setting or a strategy that does not exist.
            BadDefinition: a number out of its range.
        """
        if not data:
            return _DEFAULT
        known = {f.name: type(f.default) for f in fields(ContextSpec)}
        made: dict[str, Any] = {}
        for name, value in data.items():
            if name not in known:
                raise UnknownName("context setting", str(name), known)
            wanted = known[name]
            if wanted is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
                raise BadDefinition(f"context setting {name!r} is a {wanted.__name__}, not {value!r}")
            made[name] = value
        spec = ContextSpec(**made)
        _check(spec)
        return spec


_DEFAULT = ContextSpec()


def _check(spec: ContextSpec) -> None:
    for part in spec.parts:
        if part not in STRATEGY_NAMES:
            raise UnknownName("context strategy", part, STRATEGY_NAMES)
    lowest = {"max_rounds": 2, "keep_rounds": 1, "keep_results": 0, "result_chars": 0, "anchors": 1, "drift_rounds": 0,
              "judge_every": 1}  # fmt: skip
    for name, least in lowest.items():
        if getattr(spec, name) < least:
            raise BadDefinition(f"context setting {name!r} is at least {least}, not {getattr(spec, name)!r}")
    if not 0 < spec.low <= spec.high <= 1:
        raise BadDefinition(f"context settings: 0 < low <= high <= 1 does not hold for {spec.low} and {spec.high}")
    if spec.keep_rounds >= spec.max_rounds:
        raise BadDefinition(
            f"context settings: keep_rounds ({spec.keep_rounds}) is below max_rounds ({spec.max_rounds})"
        )
    if not 0 <= spec.drift_threshold <= 1:
        raise BadDefinition(f"context setting 'drift_threshold' is between 0 and 1, not {spec.drift_threshold}")
