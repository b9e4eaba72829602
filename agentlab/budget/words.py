"""Limits and extensions as people write them: ``extend tokens=20k cost=2.50``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from agentlab.budget.dimensions import DERIVED, DIMENSIONS, WORDS, amount_of
from agentlab.definition import Limits
from agentlab.errors import BadDefinition, UnknownName


def extension(words: Sequence[str]) -> dict[str, str]:
    """Dimension to amount, of the words after ``budget``.

    Raises:
        BadDefinition: they do not begin with ``extend``, or one is not ``DIMENSION=AMOUNT``.
    """
    if words[0] != "extend" or len(words) < 2:
        raise BadDefinition(
            f"budget {' '.join(words)!r}: write budget extend DIMENSION=AMOUNT, as in extend tokens=20k"
        )
    return amounts(words[1:])


def amounts(words: Sequence[str]) -> dict[str, str]:
    """Dimension to amount, of words like ``tokens=20k``.

    Raises:
        BadDefinition: one is not ``DIMENSION=AMOUNT``.
    """
    out = {}
    for word in words:
        name, equals, amount = word.partition("=")
        if not equals or not name or not amount:
            raise BadDefinition(f"{word!r}: write DIMENSION=AMOUNT, as in tokens=20k")
        out[name] = amount
    return out


def limits_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of :class:`agentlab.Limits` for limits as people write them: ``{"tokens": "20k", "cost": 2.5, "wall": "2h"}``.

    Fields with numbers stay as they are; ``tool:NAME`` limits the calls of one tool.

    Raises:
        BadDefinition: an amount that is none.
        UnknownName: no limit of that name.
    """
    known = {field.name for field in fields(Limits)}
    out: dict[str, Any] = {}
    for name, value in changes.items():
        dimension = WORDS.get(name, name)
        if value is None or (name in known and not isinstance(value, str)):
            out[name] = value
        elif dimension.startswith("tool:"):
            tool = {dimension.removeprefix("tool:"): amount_of(dimension, value)}
            out["tool_calls_by_tool"] = {**out.get("tool_calls_by_tool", {}), **tool}
        elif dimension in ("wall_ms", "active_ms"):
            out[dimension.removesuffix("ms") + "s"] = amount_of(dimension, value) / 1000
        elif dimension in DIMENSIONS or dimension in DERIVED:
            out[dimension] = amount_of(dimension, value)
        elif name in known:
            out[name] = value
        else:
            raise UnknownName("limit", name, {*known, *WORDS, "wall", "active", f"tool:{name}"})
    return out
