"""From JSON back to what a function's annotations ask for."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentlab.converting import converters
from agentlab.toolhost.invoking import Shape


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0
    when: dt.date | None = None


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


def test_the_key_that_the_harness_fills_in_is_not_converted() -> None:
    def send(path: Path, idempotency_key: str) -> Any:
        return path, idempotency_key

    assert Shape(send).fit({"path": "p"}, "tool", "s#1", {})[1] == {"path": Path("p"), "idempotency_key": "s#1"}
