"""What looking at a lab or a session gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentlab.counting import counted
from agentlab.events import Event
from agentlab.lab import Lab, Session
from agentlab.lab.lines import QUIET, event_line
from agentlab.lab.locate import Located
from agentlab.lab.status import Status
from agentlab.notebook.display import (
    ROWS,
    SIGNS,
    Shown,
    card,
    code,
    columns,
    commands_html,
    commands_text,
    fold,
    joined,
    lines_html,
    mode,
    paragraph,
    stable,
    table,
)  # fmt: skip
from agentlab.notebook.parsing import VerbParser
from agentlab.notebook.registry import Verb, all_verbs
from agentlab.notebook.results import next_commands, where
from agentlab.notebook.twins import TWINS
from agentlab.session.superseding import is_superseded


@dataclass(frozen=True, repr=False)
class Said(Shown):
    """Something that was done, in a sentence, and what can be done next."""

    title: str
    sentence: str
    commands: dict[str, str] = field(default_factory=dict)
    session: Session | None = None
    value: Any = None

    def text(self) -> str:
        """The sentence."""
        return joined(f"{self.title}: {stable(self.sentence)}", commands_text(self.commands))

    def html(self) -> str:
        """The sentence as HTML."""
        return card(self.title, paragraph(stable(self.sentence)), commands_html(self.commands))


@dataclass(frozen=True, repr=False)
class StatusView(Shown):
    """Where a session is, as of the moment of asking."""

    session: Session
    status: Status
    commands: dict[str, str]

    @classmethod
    def of(cls, session: Session) -> StatusView:
        """The session's status now."""
        status = session.status()
        return cls(session, status, next_commands(session, status))

    def _counts(self) -> str:
        s = self.status
        counts = [counted(s.turns, "turn"), counted(s.events, "event"), counted(s.crashes, "harness death")]
        return ", ".join([f"{s.steps_done} of {s.steps} steps done", *counts])

    def text(self) -> str:
        """The status in words."""
        head = f"{SIGNS.get(self.status.status, '·')} {self.status.session_id}: {where(self.status)}"
        return joined(head, self._counts(), commands_text(self.commands))

    def html(self) -> str:
        """The status as HTML."""
        parts = (paragraph(where(self.status)), paragraph(self._counts(), quiet=True), commands_html(self.commands))
        return card(self.status.session_id, *parts, status=self.status.status)


@dataclass(frozen=True, repr=False)
class SessionsTable(Shown):
    """All sessions of a lab, one row each."""

    lab: Lab
    rows: tuple[Status, ...]

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                r.session_id,
                f"{SIGNS.get(r.status, '·')} {r.status}",
                r.step or "",
                f"{r.steps_done}/{r.steps}",
                r.crashes,
                r.events,
            )
            for r in self.rows
        ]

    def text(self) -> str:
        """The sessions as a text table."""
        return columns(_SESSIONS, self._rows()) if self.rows else NO_SESSIONS

    def html(self) -> str:
        """The sessions as an HTML table."""
        return card(
            counted(len(self.rows), "session"), table(_SESSIONS, self._rows()) if self.rows else paragraph(NO_SESSIONS)
        )


_SESSIONS = ("session", "status", "step", "steps done", "crashes", "events")
NO_SESSIONS = "no sessions yet; begin one with: %agent run sales_report"


@dataclass(frozen=True, repr=False)
class LogView(Shown):
    """Events of a session as lines. ``events`` are the events themselves, payloads and all."""

    session: Session
    events: tuple[Event, ...]
    tail: bool = True
    """Show the newest openly; else the first."""
    quiet: bool = True
    """Leave out the kinds that say little in a timeline."""

    def lines(self) -> list[str]:
        """Every line, in order."""
        gone = self.session.superseded()
        shown = (e for e in self.events if not (self.quiet and e.type in QUIET))
        return [stable(event_line(e, is_superseded(e.seq, gone))) for e in shown]

    def text(self) -> str:
        """The timeline as text, :data:`ROWS` lines of it."""
        lines = self.lines()
        hidden = len(lines) - ROWS
        if hidden <= 0:
            return joined(f"{self.session.id}: {counted(len(self.events), 'event')}", *lines)
        if self.tail:
            before = counted(hidden, "line before this", "lines before these")
            return joined(f"{self.session.id}: {before}: %agent log --from 1", *lines[-ROWS:])
        last = lines[ROWS].split()[1]
        return joined(f"{self.session.id}:", *lines[:ROWS], f"… and {hidden} more: %agent log --from {last}")

    def html(self) -> str:
        """The timeline as HTML, the rest in a fold."""
        lines = self.lines()
        shown, rest = (lines[-ROWS:], lines[:-ROWS]) if self.tail else (lines[:ROWS], lines[ROWS:])
        folded = (
            fold(counted(len(rest), "earlier line" if self.tail else "later line"), lines_html(rest)) if rest else ""
        )
        parts = (folded, lines_html(shown)) if self.tail else (lines_html(shown), folded)
        return card(f"{self.session.id}: {counted(len(self.events), 'event')}", *parts)


@dataclass(frozen=True, repr=False)
class LocatedView(Shown):
    """Where a session is, with the evidence for it."""

    session: Session
    located: Located

    def text(self) -> str:
        """The finding in lines."""
        return stable(str(self.located))

    def html(self) -> str:
        """The finding as HTML."""
        at = self.located
        rows = [("because", stable(evidence)) for evidence in at.evidence]
        rows += [("before", stable(at.before))] if at.before else []
        rows += [("error", stable(at.error))] if at.error else []
        rows += [("next", at.next)]
        step = f" at step {at.step}" if at.step else ""
        return card(f"{at.session_id}: {at.condition.replace('_', ' ')}{step}", table(("", ""), rows))


@dataclass(frozen=True, repr=False)
class LabView(Shown):
    """The lab in hand, and what to do in it."""

    lab: Lab
    sessions: int
    session: StatusView | None = None

    @property
    def name(self) -> str:
        """The lab's folder; only its last part where output must not change from machine to machine."""
        return self.lab.path.name if mode() == "plain" else str(self.lab.path)

    def _head(self) -> str:
        limit = self.lab.queue.max_sessions
        places = "" if limit is None else f", at most {limit} at once"
        return (counted(self.sessions, "session") if self.sessions else NO_SESSIONS) + places

    def text(self) -> str:
        """The place in lines."""
        return joined(f"lab {self.name}: {self._head()}", self.session.text() if self.session else "")

    def html(self) -> str:
        """The place as HTML."""
        return card(f"lab {self.name}", paragraph(self._head(), quiet=True)) + (
            self.session.html() if self.session else ""
        )


@dataclass(frozen=True, repr=False)
class TableView(Shown):
    """A plain table with a title."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def text(self) -> str:
        """The table as text."""
        return joined(self.title, columns(self.heads, self.rows))

    def html(self) -> str:
        """The table as HTML."""
        return card(self.title, table(self.heads, self.rows))


@dataclass(frozen=True, repr=False)
class HelpView(Shown):
    """The help of one verb, or of all."""

    title: str
    lead: str
    rows: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, verb: Verb, parser: VerbParser) -> HelpView:
        """A verb with its arguments."""
        rows = [("example", verb.example)]
        if verb.name in TWINS:
            rows.append(("in Python", TWINS[verb.name]))
        for action in parser._actions:
            name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            value = f" {action.metavar or action.dest.upper()}" if action.option_strings and action.nargs != 0 else ""
            rows.append((name + value, (action.help or "").replace("%%", "%")))
        return cls(f"%agent {verb.name}", verb.help, tuple(rows))

    @classmethod
    def everything(cls) -> HelpView:
        """All verbs."""
        rows = tuple((verb.example, verb.help) for verb in all_verbs().values())
        return cls("%agent", "Every verb returns the object it shows; %agent VERB -h shows a verb's options.", rows)

    def text(self) -> str:
        """The help as text: all of it."""
        width = max(len(name) for name, _ in self.rows)
        return joined(f"{self.title}: {self.lead}", *(f"  {name:<{width}}  {what}" for name, what in self.rows))

    def html(self) -> str:
        """The help as HTML."""
        items = "".join(
            f"<tr style='background:transparent'><td style='text-align:left;padding:2px 14px 2px 0'>{code(name)}</td>"
            f"<td style='text-align:left;padding:2px 0'>{paragraph(what)}</td></tr>"
            for name, what in self.rows
        )
        return card(self.title, paragraph(self.lead), f"<table style='margin:0'><tbody>{items}</tbody></table>")
