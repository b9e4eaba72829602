"""Quick frozen dataclasses behave as the plain ones do."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from agentlab.evolve import evolve, quick


@quick
@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    seen: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Plain:
    x: int
    y: int = 2


def test_made_by_position_by_name_and_by_default():
    assert Point(1) == Point(x=1, y=2, seen=[]) and Point(1).seen is not Point(1).seen
    assert repr(Point(1, 3)) == "test_evolve.Point(x=1, y=3, seen=[])".partition(".")[2]
    with pytest.raises(TypeError, match="x"):
        Point()
    with pytest.raises(TypeError, match="z"):
        Point(1, z=3)


def test_frozen_copied_and_pickled():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).x = 2
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5) == evolve(Point(1), y=5)
    assert pickle.loads(pickle.dumps(Point(1, 5, [7]))) == Point(1, 5, [7])


@pytest.mark.parametrize("cls", [Point, Plain])
def test_evolve_leaves_the_old_one_alone_and_refuses_unknown_fields(cls):
    old = cls(1)
    assert evolve(old, x=9) == cls(9) and old == cls(1)
    with pytest.raises(TypeError, match="z"):
        evolve(old, z=1)


def test_a_class_that_checks_itself_is_not_made_quick():
    with pytest.raises(TypeError, match="slots"):
        quick(Plain)
