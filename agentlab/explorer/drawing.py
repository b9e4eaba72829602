"""Schedules by seed: first every kind of misdeed alone, then deaths, losses and misdeeds mixed, up to six in a row."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentlab.explorer.schedule import Schedule, Strike
from agentlab.explorer.troubles import Calls, Trouble, all_troubles, drawn

DEATHS = ("harness", "harness", "sandbox", "both", "second")
"""What else strikes; a loss of power besides, where the session promises to survive one."""
MOST = 6
SOON = 4
"""A misdeed after another strike comes at one of so many next calls: further ones are seldom reached."""


def one_of_each(calls: Calls, chosen: random.Random) -> list[Trouble]:
    """Every kind of misdeed of every service once, each at a call that ``chosen`` picks, in an order that it picks."""
    by_kind: dict[tuple[str, str], list[Trouble]] = {}
    for trouble in all_troubles(calls):
        by_kind.setdefault((trouble.kind, trouble.fault.name or trouble.fault.point), []).append(trouble)
    out = [chosen.choice(found) for found in by_kind.values()]
    chosen.shuffle(out)
    return out


def schedules(visits: Sequence[Strike], calls: Calls, seed: int, power: bool) -> Iterator[Schedule]:
    """Schedules without end, the same for the same seed. ``power`` says whether the power may fail too."""
    chosen = random.Random(seed)
    yield from ((trouble,) for trouble in one_of_each(calls, chosen))
    targets = (*DEATHS, "power") if power else DEATHS
    while True:
        out: list[Strike | Trouble] = []
        for _ in range(chosen.randint(2, MOST)):
            trouble = drawn(calls, chosen, SOON if out else 10_000) if chosen.random() < 0.5 else None
            out.append(trouble or replace(chosen.choice(visits), target=chosen.choice(targets)))
        yield tuple(out)
