"""Whole signatures: annotations that are text, defaults, hidden and open parameters, docstrings of three styles."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NotRequired, Optional, TypedDict

import pytest

import agentlab as al
from agentlab.errors import BadDefinition
from agentlab.schemas import input_schema

INTEGER, NULL = {"type": "integer"}, {"type": "null"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(TypedDict):
    x: int
    y: NotRequired[int]


POINT = {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}, "required": ["x"], "additionalProperties": False}


def test_annotations_that_are_strings() -> None:
    def f(a: int, b: Colour, c: Optional[Point] = None, d: NoSuchThing = 3) -> None:  # type: ignore[name-defined]  # noqa: F821, UP045
        ...

    schema = input_schema(f)
    assert schema["properties"]["a"] == INTEGER, "one that can not be evaluated does not take the others along"
    assert schema["properties"]["b"]["enum"] == ["red", "blue"]
    assert schema["properties"]["c"] == {"anyOf": [POINT, NULL], "default": None}
    assert schema["properties"]["d"] == {"default": 3}
    assert schema["required"] == ["a", "b"]


def test_defaults_that_json_can_say() -> None:
    def f(
        a: int = 1,
        b: str | None = None,
        c: list[int] = [1],  # noqa: B006
        d: Colour = Colour.RED,
        e: Path = Path("x"),
        g: float = float("inf"),
        h: Any = object(),  # noqa: B008
        i: bool = False,
    ) -> None: ...

    properties = input_schema(f)["properties"]
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    assert defaults == {"a": 1, "b": None, "c": [1], "d": "red", "e": "x", "i": False}
    assert input_schema(f)["required"] == []


def test_the_key_is_hidden_and_open_parameters_are_open() -> None:
    def f(to: str, idempotency_key: str, *, copies: int = 1, **more: Any) -> None: ...

    schema = input_schema(f)
    assert list(schema["properties"]) == ["to", "copies"] and schema["required"] == ["to"]
    assert schema["additionalProperties"] is True


def test_no_signature_is_refused() -> None:
    with pytest.raises(BadDefinition, match="signature can not be read"):
        input_schema(type("Odd", (), {"__signature__": 3, "__call__": lambda self: 0})())


class Adder:
    """A class."""

    def __call__(self, n: int, m: int = 2) -> int:
        """Add.

        Args:
            n: the first.
        """
        return n + m


def test_callables_that_are_no_functions() -> None:
    assert input_schema(Adder())["properties"]["n"]["type"] == "integer"
    assert input_schema(Adder().__call__)["properties"] == {
        "n": {"type": "integer", "description": "the first."},
        "m": {"type": "integer", "default": 2},
    }
    partial = input_schema(functools.partial(Adder().__call__, m=3))
    assert partial["properties"]["n"]["type"] == "integer" and partial["required"] == ["n"]


def google(a: int, b: str, c: float = 0.0) -> int:
    """Do it.

    And more of it.

    Args:
        a: the first, which
            goes on: with a colon
            and a third line.
        b (str): the second.
        c (float, optional): the third.

    Returns:
        a: not this.

    Raises:
        ValueError: b: not this either.
    """
    return a


def numpy(a: int, b: str, c: float = 0.0) -> int:
    """Do it.

    And more of it.

    Parameters
    ----------
    a : int
        the first, which
        goes on: with a colon
        and a third line.
    b : str
        the second.
    c : float, optional
        the third.

    Returns
    -------
    a : int
        not this.
    """
    return a


def sphinx(a: int, b: str, c: float = 0.0) -> int:
    """Do it.

    And more of it.

    :param a: the first, which
        goes on: with a colon
        and a third line.
    :type a: int
    :param str b: the second.
    :param c: the third.
    :returns: a: not this.
    """
    return a


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings(function: Callable[..., Any]) -> None:
    texts = {name: schema.get("description") for name, schema in input_schema(function)["properties"].items()}
    assert texts == {
        "a": "the first, which goes on: with a colon and a third line.",
        "b": "the second.",
        "c": "the third.",
    }
    definition, _, _ = al.Task("t", "Do it.", tools=[function], model="claude-x").define(lambda data: "")
    assert definition.tools[0].description.startswith("Do it.")
    assert "not this" not in definition.tools[0].description


def test_a_docstring_on_other_things_describes_nothing() -> None:
    def f(note: int) -> None:
        """Note: this is a sentence.

        note: so is this.
        """

    assert "description" not in input_schema(f)["properties"]["note"]
