"""A labelled sequence of calls, the tape it is written on, and how a detector is scored on many of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agentlab.guard.action import Action
from agentlab.guard.state import Finding

Detector = Callable[[Sequence[Action]], list[Finding]]


@dataclass(frozen=True, slots=True)
class Case:
    """``stop`` says whether the run is stuck; ``known_at`` is the first seq at which that could be known."""

    kind: str
    stop: bool
    actions: tuple[Action, ...]
    known_at: int


class Tape:
    """Calls written one after another, with seeded choices."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.actions: list[Action] = []
        self.talks = self.rng.random() < 0.5  # half of the models say something new before every call
        self._counter = 0

    def call(self, tool: str, value: Any, result: str = "", *, stateful: bool = False) -> None:
        """A call that succeeded."""
        self._add(Action(tool, value, "ok", result, stateful_read=stateful))

    def fail(self, tool: str, value: Any, message: str, error_type: str | None = None) -> None:
        """A call that failed."""
        self._add(Action(tool, value, "error", "", error_type, message))

    def _add(self, action: Action) -> None:
        thought = f"{self.one('let me see', 'I will try', 'perhaps')} {self.number()}" if self.talks else ""
        self.actions.append(replace(action, seq=len(self.actions) + 1, thought=thought))

    def one(self, *choices: Any) -> Any:
        """One of the choices."""
        return self.rng.choice(choices)

    def number(self, low: int = 1, high: int = 99999) -> int:
        """A random integer."""
        return self.rng.randint(low, high)

    def fresh(self) -> int:
        """A number that was not given before, in ascending order."""
        self._counter += 1
        return self._counter

    def clock(self) -> str:
        """A time of day."""
        return f"{self.number(0, 23):02d}:{self.number(0, 59):02d}:{self.number(0, 59):02d}"


Template = Callable[[Tape, int], None]
"""Writes the telling part of a case onto a tape, with about so many rounds."""


def generate(
    templates: Sequence[tuple[str, bool, Template]], around: Template, seed: int, variations: int
) -> list[Case]:
    """``variations`` cases of every template, each after (and, where the run goes on, before) ordinary work.

    The number of rounds is drawn from one range for stuck and for sound runs, so that it separates nothing.
    """
    cases = []
    for kind, stop, template in templates:
        for i in range(variations):
            tape = Tape(f"{seed}/{kind}/{i}")
            around(tape, tape.number(0, 8))
            start = len(tape.actions)
            template(tape, tape.number(7, 14))
            if not stop:
                around(tape, tape.number(0, 6))
            cases.append(Case(kind, stop, tuple(tape.actions), start + 2))
    return cases


class Score(NamedTuple):
    """Precision and recall, and the cases that were judged wrongly (by kind)."""

    precision: float
    recall: float
    missed: dict[str, int]
    false_alarms: dict[str, int]


def score(detector: Detector, cases: Iterable[Case], *, nudges: bool = False) -> Score:
    """How well a detector does.

    A stuck run counts as found when a verdict comes within it and not before the repetition could be known; a verdict
    before that, or in a sound run, is a false alarm. With ``nudges`` every verdict counts, otherwise only those that
    halt the run.
    """
    found, missed, alarms = 0, dict[str, int](), dict[str, int]()
    for case in cases:
        verdicts = [f for f in detector(case.actions) if nudges or f.action != "nudge"]
        if any(not case.stop or f.at < case.known_at for f in verdicts):
            alarms[case.kind] = alarms.get(case.kind, 0) + 1
        if case.stop:
            hit = any(f.at >= case.known_at for f in verdicts)
            found += hit
            if not hit:
                missed[case.kind] = missed.get(case.kind, 0) + 1
    positives, negatives = sum(alarms.values()), sum(missed.values())
    precision = found / (found + positives) if found + positives else 1.0
    return Score(precision, found / (found + negatives) if found + negatives else 1.0, missed, alarms)
