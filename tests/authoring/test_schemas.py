"""From annotations to JSON schema, and from JSON back to what the annotations ask for."""

from __future__ import annotations

import datetime as dt
import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict

import pytest

from agentlab.converting import converters
from agentlab.errors import BadDefinition
from agentlab.schemas import input_schema, schema_of
from agentlab.toolhost.invoking import Shape

Meters = NewType("Meters", float)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Row(TypedDict):
    name: str
    size: NotRequired[int]


@dataclass
class Point:
    x: float
    y: float = 0.0
    when: dt.date | None = None
    tags: list[str] = field(default_factory=list)


@dataclass
class Node:
    value: int
    children: list[Node]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (None, {"type": "null"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list, {"type": "array"}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        ),
        (tuple[()], {"type": "array"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "b"], {"enum": [1, "b"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Path, {"type": "string"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (Meters, {"type": "number"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Callable[[int], int], {}),
        (object, {}),
    ],
)
def test_schema_of(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_records() -> None:
    assert schema_of(Row) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    point = schema_of(Point)
    assert point["required"] == ["x"] and list(point["properties"]) == ["x", "y", "when", "tags"]
    children = schema_of(Node)["properties"]["children"]
    assert children == {"type": "array", "items": {"type": "object"}}


def fetch(table: str, limit: int = 10, colour: Colour = Colour.RED, key: Any = None, *, idempotency_key: str) -> None:
    """Fetch.

    Args:
        table: Its name.
    """


def test_input_schema() -> None:
    assert input_schema(fetch) == {
        "type": "object",
        "properties": {
            "table": {"type": "string", "description": "Its name."},
            "limit": {"type": "integer", "default": 10},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "key": {"default": None},
        },
        "required": ["table"],
        "additionalProperties": False,
    }
    assert input_schema(functools.partial(fetch, limit=3))["properties"]["limit"] == {"type": "integer", "default": 3}


def test_unannotated_and_more() -> None:
    def loose(a, b=float("nan"), **rest):  # type: ignore[no-untyped-def]
        return a, b, rest

    assert input_schema(loose) == {
        "type": "object",
        "properties": {"a": {}, "b": {}},
        "required": ["a"],
        "additionalProperties": True,
    }


def test_one_bad_annotation_spoils_nothing_else() -> None:
    def mixed(a: Nowhere, b: int) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Mixed."""

    assert input_schema(mixed)["properties"] == {"a": {}, "b": {"type": "integer"}}


def test_a_class_of_the_enclosing_function() -> None:
    @dataclass
    class Local:
        n: int

    def use(item: Local) -> Local:
        return Local(item.n)

    assert input_schema(use)["properties"]["item"]["properties"] == {"n": {"type": "integer"}}


@pytest.mark.parametrize("bad", [lambda *rest: rest, lambda a, /: a])
def test_what_models_can_not_call(bad: Callable[..., Any]) -> None:
    with pytest.raises(BadDefinition, match="by name"):
        input_schema(bad)


def typed(
    path: Path,
    when: dt.datetime | None = None,
    colour: Colour = Colour.RED,
    points: Sequence[Point] = (),
    pair: tuple[int, Path] | None = None,
    names: set[str] | None = None,
    either: Path | int = 0,
    plain: str = "",
) -> list[Any]:
    return [path, when, colour, list(points), pair, names, either, plain]


def test_arguments_become_what_the_annotations_ask_for() -> None:
    given = {
        "path": "a/b",
        "when": "2024-05-01T12:00:00+00:00",
        "colour": "blue",
        "points": [{"x": 1, "when": "2024-05-01"}],
        "pair": [1, "c"],
        "names": ["n", "n"],
        "either": 3,
        "plain": "p",
    }
    first, named = Shape(typed).fit(given, "tool", None, {})
    assert typed(*first, **named) == [
        Path("a/b"),
        dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC),
        Colour.BLUE,
        [Point(1, when=dt.date(2024, 5, 1))],
        (1, Path("c")),
        {"n"},
        3,
        "p",
    ]
    assert given["path"] == "a/b"
    assert Shape(typed).fit({"path": "x", "when": None}, "tool", None, {})[1]["when"] is None


@pytest.mark.parametrize(
    "wrong",
    [{"when": "yesterday"}, {"colour": "green"}, {"points": [{"x": 1, "z": 2}]}, {"pair": [1]}],
)
def test_arguments_that_can_not_be_used(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        Shape(typed).fit({"path": "p", **wrong}, "tool", None, {})


def test_plain_functions_have_no_converters() -> None:
    def plain(a: str, b: list, c: Any, d=1):  # type: ignore[no-untyped-def, type-arg]
        return a, b, c, d

    assert converters(plain) == {} and converters(len) == {}
