"""What the injection form offers: the vocabulary of :mod:`agentlab.faults.kinds`, one choice a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentlab.faults import NAMED
from agentlab.faults.kinds import KINDS, PROCESSES

Group = Literal["process", "second", "service", "random", "schedule"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can go wrong. ``action`` and ``target`` as in a fault's words; ``meaning`` for a person."""

    words: str
    group: Group
    action: str
    target: str
    meaning: str = ""


_PROCESSES = (
    Choice("kill harness", "process", "kill", "harness"),
    Choice("stop harness", "process", "stop", "harness"),
    Choice("continue harness", "process", "cont", "harness"),
    Choice("kill sandbox and its folder", "process", "kill", "sandbox"),
    Choice("kill sandbox, keep folder", "process", "kill", "sandbox-process"),
    Choice("stop sandbox", "process", "stop", "sandbox"),
    Choice("continue sandbox", "process", "cont", "sandbox"),
    Choice("second harness", "second", "second", "harness", "wakes another harness on the same session"),
)


def _services() -> Iterator[Choice]:
    for service, kinds in KINDS.items():
        for kind, about in kinds.items():
            yield Choice(f"{service}: {kind}", "service", kind, service, about.meaning)


def _random() -> Iterator[Choice]:
    for name in PROCESSES:
        yield Choice(f"random kills: {name}", "random", name, "harness", "kills again and again; the seed decides when")
    for name in NAMED:
        yield Choice(f"schedule: {name}", "schedule", name, "harness", ", ".join(NAMED[name]))


CHOICES: dict[str, Choice] = {choice.words: choice for choice in (*_PROCESSES, *_services(), *_random())}
"""Every choice by its words, in the order of the list."""
