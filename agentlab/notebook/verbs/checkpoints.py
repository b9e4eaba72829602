"""checkpoints: what there is to go back to, and what one of them holds."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from agentlab.counting import counted
from agentlab.lab import Session
from agentlab.lab.checkpoints import Checkpoint
from agentlab.notebook.display import Shown, card, columns, lines_html, table
from agentlab.notebook.registry import Request, verb

_HEADS = ("checkpoint", "stands for event", "reason", "label", "bytes", "snapshot")


@dataclass(frozen=True, repr=False)
class CheckpointsTable(Shown):
    """The checkpoints of a session, one row each, oldest first."""

    session: Session
    rows: tuple[Checkpoint, ...]

    def _rows(self) -> list[tuple[Any, ...]]:
        return [(c.seq, c.cursor, c.reason, c.label, c.size_bytes, c.snapshot[:8]) for c in self.rows]

    def text(self) -> str:
        """The checkpoints as a text table."""
        return f"{self.session.id}: {counted(len(self.rows), 'checkpoint')}\n{columns(_HEADS, self._rows())}"

    def html(self) -> str:
        """The checkpoints as an HTML table."""
        return card(f"{self.session.id}: {counted(len(self.rows), 'checkpoint')}", table(_HEADS, self._rows()))


@dataclass(frozen=True, repr=False)
class CheckpointView(Shown):
    """One checkpoint whole; ``picture`` is the JSON that is shown."""

    session: Session
    picture: dict[str, Any]

    def text(self) -> str:
        """The JSON, indented."""
        return json.dumps(self.picture, indent=2, ensure_ascii=False)

    def html(self) -> str:
        """The JSON as HTML."""
        return card(str(self.picture["checkpoint_id"]), lines_html(self.text().splitlines()))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", nargs="?", help="an event number, an id, a label or newest: show that one whole")
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")


@verb("checkpoints", "the session's checkpoints, or one of them whole", "%agent checkpoints newest", _arguments)
def checkpoints(request: Request) -> CheckpointsTable | CheckpointView:
    """List them, or show what one holds."""
    session = request.place.session(request.options.session)
    if request.options.checkpoint is not None:
        return CheckpointView(session, session.checkpoint_json(request.options.checkpoint))
    return CheckpointsTable(session, tuple(session.checkpoints()))
