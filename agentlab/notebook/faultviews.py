"""What arming faults, and asking for them, gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentlab.faults import NAMED
from agentlab.faults.kinds import KINDS
from agentlab.lab import Session
from agentlab.lab.faulting import FaultRow
from agentlab.notebook.display import Shown, card, columns, joined, paragraph, table

_HEADS = ("fault", "what", "state", "event", "hit", "after")


@dataclass(frozen=True, repr=False)
class FaultsView(Shown):
    """The faults of a session: armed, or struck with the event that says so."""

    session: Session
    rows: tuple[FaultRow, ...]

    def _rows(self) -> list[tuple[Any, ...]]:
        signs = {"armed": "◌ armed", "struck": "⚡ struck"}
        return [(r.fault, r.words, signs[r.state], r.seq, r.hit, r.follows) for r in self.rows]

    def _head(self) -> str:
        struck = sum(row.state == "struck" for row in self.rows)
        return f"{len(self.rows) - struck} armed, {struck} struck" if self.rows else "no faults"

    def text(self) -> str:
        """The table as text."""
        return joined(f"{self.session.id}: {self._head()}", columns(_HEADS, self._rows()) if self.rows else "")

    def html(self) -> str:
        """The table as HTML."""
        return card(
            self.session.id, paragraph(self._head(), quiet=True), table(_HEADS, self._rows()) if self.rows else ""
        )


@dataclass(frozen=True, repr=False)
class KindsView(Shown):
    """What can go wrong, in the words to write it."""

    def _rows(self) -> list[tuple[str, str]]:
        deaths = [
            (
                "harness@POINT",
                "SIGKILL to the harness; #2 the second visit, :after behind the boundary, *3 three times",
            ),
            ("sandbox@POINT", "SIGKILL to the sandbox, its folder gone; sandbox-process@… keeps the folder"),
            ("harness@step=4", "when plan step 4 is in progress; also seq=42, after=2s"),
            ("stop:harness@POINT", "SIGSTOP: it hangs; int: and term: send those signals"),
            ("second:harness@POINT", "another harness wakes on the same session and works on: this one is the zombie"),
            ("harness@poisson=60s", "again and again by a seeded process; also weibull=60s/0.7, bursty=60s"),
        ]
        services = [
            (f"{service}:{name}" + (f"={kind.value:g}" if kind.unit else ""), kind.meaning + (f" ({kind.unit})" if kind.unit else ""))
            for service, kinds in KINDS.items()
            for name, kind in kinds.items()
        ]  # fmt: skip
        return [*deaths, *services, *((name, " and ".join(words)) for name, words in NAMED.items())]

    def text(self) -> str:
        """The list as text."""
        width = max(len(words) for words, _ in self._rows())
        return "\n".join(f"{words:<{width}}  {what}" for words, what in self._rows())

    def html(self) -> str:
        """The list as HTML."""
        return card("faults", table(("words", "what"), self._rows()))
