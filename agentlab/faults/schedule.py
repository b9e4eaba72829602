"""A schedule of faults: plain data that prints, is stored, replays; a seed makes the same one again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agentlab.errors import BadDefinition
from agentlab.failures import Process
from agentlab.faults.spec import Fault, checked, deaths, fault_from_json, parse_faults

NAMED: Mapping[str, tuple[str, ...]] = {
    # After a good start a call takes longer than its limit, and longer each time it is tried again; the retries of all
    # fill the service's queue, which sheds load; and a watchdog that sees no progress ends the process in the middle.
    "retry_storm": ("model:timeout=0.1#2,model:timeout=0.2,model:timeout=0.4,model:529,term:harness@model_error:after",),
}  # fmt: skip
"""Schedules that have a name, in words."""


class Faults:
    """A schedule. Items are words (``harness@tool_result``, ``model:529*3``, a name such as ``retry_storm``), faults as
    data, or failure processes (``Poisson(60)``), whose times ``seed`` decides.

        schedule = al.Faults(["harness@tool_result#2", "model:529*3"], seed=7)
        print(schedule)
        lab.run("sales_report", faults=schedule)

    Words separated by commas strike one after the other; separate items are independent of each other. Of a process the
    first three deaths are taken (``harness@poisson=60s*10`` in words: ten), of ``Times`` every one; a ``CrashLoop`` dies at its
    event ``kills`` times (without it as often as a schedule may strike).

    Raises:
        BadDefinition, UnknownName: an item that is no fault, with near matches.
    """

    def __init__(self, items: Iterable[Any] | str = (), seed: int | None = None, first: int = 1) -> None:
        self.seed = seed
        self.faults: tuple[Fault, ...] = ()
        number = first
        if isinstance(items, (str, Fault, Process, Mapping)):
            items = [items]
        elif not isinstance(items, Iterable):
            raise _no_fault(items)
        for item in _named(items):
            self.faults += tuple(_faults(item, f"f{number}", seed or 0))
            number += 1

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __len__(self) -> int:
        return len(self.faults)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Faults) and (self.faults, self.seed) == (other.faults, other.seed)

    def __hash__(self) -> int:
        return hash((self.faults, self.seed))

    def words(self) -> list[str]:
        """The schedule in words: an option each, faults that follow each other joined by commas."""
        out: list[list[str]] = []
        ends: dict[str, int] = {}
        for fault in self.faults:
            at = ends.get(fault.follows)
            if at is None:
                at = len(out)
                out.append([])
            out[at].append(fault.spec())
            ends[fault.id] = at
        return [",".join(group) for group in out]

    def __str__(self) -> str:
        seed = "" if self.seed is None else f" --seed {self.seed}"
        return " ".join(f"--fault {words}" for words in self.words()) + seed if self.faults else "no faults"

    def __repr__(self) -> str:
        return f"Faults({json.dumps(self.words())}{'' if self.seed is None else f', seed={self.seed}'})"

    def to_json(self) -> dict[str, Any]:
        """The schedule as plain data; :meth:`from_json` is its inverse."""
        return {"schedule": [fault.to_json() for fault in self.faults], "seed": self.seed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Faults:
        """A schedule from its data, as ``fault_armed`` holds it.

        Raises:
            BadDefinition: it can not be read.
        """
        made = cls((), data.get("seed"))
        made.faults = tuple(fault_from_json(fault) for fault in data.get("schedule", ()))
        return made


def _named(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, str) and item.strip() in NAMED:
            yield from NAMED[item.strip()]
        else:
            yield item


def _faults(item: Any, fault_id: str, seed: int) -> list[Fault]:
    if isinstance(item, Fault):
        return [item]
    if isinstance(item, Process):
        from dataclasses import replace

        return [replace(fault, id=f"{fault_id}.{n}") for n, fault in enumerate(deaths(item, seed), 1)]
    if isinstance(item, Mapping):
        return [checked({"id": fault_id, **item})]
    if not isinstance(item, str):
        raise _no_fault(item)
    return parse_faults(item, fault_id, seed)


def _no_fault(item: Any) -> BadDefinition:
    return BadDefinition(f"a fault is a text as in harness@tool_result, a Fault or a failure process, not {item!r}")
