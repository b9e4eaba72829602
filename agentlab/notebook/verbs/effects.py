"""effects: what was done outside, and what nobody can tell."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from agentlab.counting import counted
from agentlab.lab import Session
from agentlab.lab.registry import Effect, in_doubt
from agentlab.notebook.display import Shown, card, columns, commands_html, commands_text, joined, table
from agentlab.notebook.registry import Request, verb

_HEADS = ("tool", "state", "tries", "reused", "event", "key", "evidence")


@dataclass(frozen=True, repr=False)
class EffectsTable(Shown):
    """External effects, one row each; those in doubt come with the commands that decide them."""

    session: Session
    rows: tuple[Effect, ...]

    @property
    def commands(self) -> dict[str, str]:
        """What can be said of each effect in doubt."""
        words = {"done": "it happened", "retry": "it did not: do it again", "skip": "go on without it"}
        doubtful = in_doubt(self.rows)
        return {f"%agent settle {e.key} {word}": what for e in doubtful for word, what in words.items()}

    def _rows(self) -> list[tuple[Any, ...]]:
        return [(e.tool, e.state, e.tries, e.reused, e.seq, e.key, e.evidence[:60]) for e in self.rows]

    def _title(self) -> str:
        count = len(in_doubt(self.rows))
        effects = counted(len(self.rows), "effect")
        return f"{self.session.id}: {effects}" + (f", {count} in doubt" if count else "")

    def text(self) -> str:
        """The effects as a text table."""
        return joined(self._title(), columns(_HEADS, self._rows()) if self.rows else "", commands_text(self.commands))

    def html(self) -> str:
        """The effects as an HTML table."""
        return card(self._title(), table(_HEADS, self._rows()), commands_html(self.commands))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="a session's id; the one in hand without it")
    parser.add_argument("--doubt", action="store_true", help="only those in doubt")


@verb("effects", "what was done outside, with its key and state; what is in doubt", arguments=_arguments)
def effects(request: Request) -> EffectsTable:
    """The registry of external effects."""
    session = request.place.session(request.options.session)
    found = session.effects()
    return EffectsTable(session, tuple(in_doubt(found) if request.options.doubt else found))
