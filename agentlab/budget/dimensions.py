"""What is counted: the names of the dimensions, which of them are counts, and amounts as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentlab.errors import BadDefinition, UnknownName

Amounts = Mapping[str, int]

DIMENSIONS = (
    "input_tokens",
    "output_tokens",
    "cache_tokens",
    "cost_microusd",
    "model_calls",
    "tool_calls",
    "active_ms",
    "steps",
)
"""Dimensions counted for every session; ``tool:<name>`` counts one tool's calls."""

TOKENS = ("input_tokens", "output_tokens", "cache_tokens")
"""What the dimension ``tokens`` is the sum of."""

DERIVED = ("tokens", "wall_ms")
"""Dimensions that follow from others: all tokens, and the time since the session began."""

COUNTS = frozenset({"model_calls", "tool_calls", "steps"})
"""Dimensions where the last unit may be used up (>= 0); the others need something left (> 0)."""

WORDS: Mapping[str, str] = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache": "cache_tokens",
    "cost": "cost_microusd",
    "money": "cost_microusd",
    "usd": "cost_microusd",
    "calls": "tool_calls",
    "wall": "wall_ms",
    "wall_s": "wall_ms",
    "active": "active_ms",
    "active_s": "active_ms",
}
"""Other words for dimensions, for people."""

_SCALES = {"k": 1_000, "m": 1_000_000}
_TIMES = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def is_count(dimension: str) -> bool:
    """Whether the last unit of a dimension may be used up."""
    return dimension in COUNTS or dimension.startswith("tool:")


def dimension_named(word: str, known: Iterable[str] = ()) -> str:
    """The dimension that a person means by a word; a tool's name after ``tool:``.

    Raises:
        UnknownName: there is none (near matches in the message).
    """
    name = WORDS.get(word, word)
    if name in DIMENSIONS or name in DERIVED or name in known or (name.startswith("tool:") and len(name) > 5):
        return name
    raise UnknownName("budget dimension", word, {*DIMENSIONS, *DERIVED, *WORDS, *known})


def amount_of(dimension: str, text: str | int | float) -> int:
    """An amount as a person writes it, in the dimension's units.

    Numbers are counts, tokens, dollars (``2.50``, ``$2``) or seconds; ``20k`` and ``1.5M`` are thousands and
    millions; ``90s``, ``30min``, ``2h`` are times.

    Raises:
        BadDefinition: it is none, or not positive.
    """
    wanted = f"{dimension}: {text!r} is no amount"
    raw = str(text).strip().lower().removeprefix("$").replace("_", "").replace(",", "")
    factor = {"cost_microusd": 1_000_000, "wall_ms": 1_000, "active_ms": 1_000}.get(dimension, 1)
    units = _TIMES if dimension.endswith("_ms") else _SCALES
    for unit in sorted(units, key=len, reverse=True):
        if raw.endswith(unit) and raw != unit:
            raw = raw[: -len(unit)]
            factor = units[unit] if units is _TIMES else factor * units[unit]
            break
    try:
        value = round(float(raw) * factor)
    except (ValueError, OverflowError):
        raise BadDefinition(f"{wanted}; write a number as in 20k, 2.50 or 30min") from None
    if value <= 0:
        raise BadDefinition(f"{wanted}; it must be positive")
    return value


def shown(dimension: str, amount: float | None) -> str:
    """An amount for a person: dollars, seconds, or a number; ``no limit`` for None."""
    if amount is None:
        return "no limit"
    if dimension == "cost_microusd":
        return f"${amount / 1e6:.4f}"
    if dimension.endswith("_ms"):
        return f"{amount / 1000:.1f} s"
    return f"{round(amount):,}"
