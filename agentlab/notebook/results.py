"""What driving a session gives back: the run in tables, a single step, and what can be done next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentlab.counting import counted
from agentlab.events import Event
from agentlab.lab import Session
from agentlab.lab.costs import CrashCost, crash_costs
from agentlab.lab.lines import event_line
from agentlab.lab.status import Status
from agentlab.notebook.display import (
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
    paragraph,
    stable,
    table,
)  # fmt: skip
from agentlab.session.commands import Command, Rest, StartRecovery
from agentlab.session.recovery import done_steps


def next_commands(session: Session, status: Status | None = None) -> dict[str, str]:
    """The commands that make sense now, each with what it does."""
    status = status or session.status()
    if status.status == "waiting":
        return _answers(session)
    if status.status == "queued":
        return {"%agent queue": "who runs, who waits", "%agent pause": "rest at once; the ticket is kept"}
    if status.status == "running":
        return {
            "%agent status": "look again", "%agent pause": "rest at the next safe point",
            "%agent kill harness": "SIGKILL, for real",
        }  # fmt: skip
    if status.resumable:
        return {
            "%agent wake": "go on from here", "%agent step": "one command", "%agent plan": "the next command",
            "%agent log": "what happened",
        }  # fmt: skip
    return {
        "%agent log": "what happened",
        "%agent locate": "where it stands",
        "%agent verify": "check every row's hash",
    }


def _answers(session: Session) -> dict[str, str]:
    question = session.state.control.question
    if question.get("kind") == "effect":
        key = question.get("key")
        return {f"%agent settle {key} {word}": what for word, what in _SETTLE.items()}
    if question.get("kind") == "approval":
        return {"%agent approve --wake": "let it", "%agent deny --wake": "do not let it"}
    return {"%agent reply --wake TEXT": "answer, and go on"}


_SETTLE = {"done": "it happened", "retry": "it did not: do it again", "skip": "go on without it"}


def where(status: Status) -> str:
    """A status in words, without its session's name."""
    at = f" at step {status.step}" if status.step and status.status not in ("completed", "failed") else ""
    why = f" ({stable(status.reason)})" if status.reason and status.reason != status.status else ""
    return f"{status.status}{why}{at}"


@dataclass(frozen=True, repr=False)
class RunResult(Shown):
    """A run as it stood when the verb returned: steps, crashes survived, effects, files. ``session`` is the live handle."""

    session: Session
    task: str
    status: Status
    steps: tuple[dict[str, Any], ...]
    crashes: tuple[CrashCost, ...]
    effects: tuple[dict[str, Any], ...]
    files: dict[str, int]
    commands: dict[str, str]

    @classmethod
    def of(cls, session: Session) -> RunResult:
        """The session as its log tells it now."""
        events, status = session.events(), session.status()
        return cls(
            session=session,
            task=session.definition.task,
            status=status,
            steps=_steps(session),
            crashes=tuple(crash_costs(events)),
            effects=_effects(events),
            files=session.files(),
            commands=next_commands(session, status),
        )

    def to_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "session_id": self.session.id,
            "task": self.task,
            "status": self.status.to_json(),
            "steps": list(self.steps),
            "crashes": [crash.to_json() for crash in self.crashes],
            "effects": list(self.effects),
            "files": self.files,
        }

    def _step_rows(self) -> list[tuple[Any, ...]]:
        return [
            (_MARKS[s["state"]], s["step"], s["title"], s["model_calls"], s["tool_calls"], s["retries"], s["errors"])
            for s in self.steps
        ]

    def _crash_rows(self) -> list[tuple[Any, ...]]:
        return [
            (c.target, stable(c.cause) or "by hand", c.commands_again, c.model_calls, c.effects_verified, c.lost_steps)
            for c in self.crashes
        ]

    def _effect_rows(self) -> list[tuple[Any, ...]]:
        return [(e["tool"], e["key"], e["outcome"], e["sent"]) for e in self.effects]

    def _head(self) -> str:
        return f"{self.status.steps_done} of {self.status.steps} steps done, {counted(self.status.events, 'event')}"

    def text(self) -> str:
        """The run as text tables."""
        return joined(
            f"{SIGNS.get(self.status.status, '·')} {self.session.id}: {where(self.status)}, {self._head()}",
            columns(_STEPS, self._step_rows()) if self.steps else "",
            columns(_CRASHES, self._crash_rows()) if self.crashes else "",
            columns(_EFFECTS, self._effect_rows()) if self.effects else "",
            columns(_FILES, list(self.files.items())) if self.files else "",
            "" if self.status.status == "completed" else commands_text(self.commands),
        )

    def html(self) -> str:
        """The run as HTML tables."""
        status = self.status
        return card(
            self.session.id,
            paragraph(
                self._head() if status.status == "completed" else f"{where(status)} · {self._head()}", quiet=True
            ),
            table(_STEPS, self._step_rows()) if self.steps else "",
            table(_CRASHES, self._crash_rows()) if self.crashes else "",
            table(_EFFECTS, self._effect_rows()) if self.effects else "",
            fold(f"{counted(len(self.files), 'file')} in the workspace", table(_FILES, list(self.files.items())))
            if self.files
            else "",
            commands_html(self.commands),
            status=status.status,
        )


_MARKS = {"done": "✓", "current": "▶", "open": "·"}
_STEPS = ("", "step", "what", "model calls", "tool calls", "retries", "errors")
_CRASHES = ("crash survived", "where", "commands again", "model calls", "effects verified", "lost steps")
_EFFECTS = ("effect", "key", "outcome", "sent")
_FILES = ("file", "bytes")


def _steps(session: Session) -> tuple[dict[str, Any], ...]:
    state = session.state
    done = set(done_steps(state))
    out = []
    for step in state.plan.steps:
        stats = state.plan.stats.get(step.id)
        current = state.step is not None and state.step.id == step.id
        out.append(
            {
                "step": step.id,
                "title": step.title,
                "state": "done" if step.id in done else "current" if current else "open",
                "model_calls": stats.model_calls if stats else 0,
                "tool_calls": stats.tool_calls if stats else 0,
                "retries": stats.retries if stats else 0,
                "errors": stats.errors if stats else 0,
            }
        )
    return tuple(out)


def _effects(events: Sequence[Event]) -> tuple[dict[str, Any], ...]:
    """External effects by key: how often they were sent, and what is known of them."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.type.startswith("effect_") and "key" in event.payload:
            key = event.payload["key"]
            effect = found.setdefault(
                key, {"tool": event.tool_name or event.payload.get("tool"), "key": key, "sent": 0}
            )
            effect["sent"] += event.type == "effect_pending"
            effect["outcome"] = (
                _OUTCOMES.get(event.type) or event.payload.get("outcome") or event.payload.get("decision")
            )
            if event.type == "effect_verified" and effect["outcome"] == "completed":
                effect["outcome"] = "completed (verified)"
            if event.type == "effect_completed" and event.payload.get("verified"):
                effect["outcome"] = "completed (verified)"
    return tuple(found.values())


_OUTCOMES = {
    "effect_pending": "pending", "effect_completed": "completed", "effect_failed": "not done", "effect_in_doubt": "in doubt",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class StepResult(Shown):
    """One command of the harness: what was planned, the events it gave, and what comes next."""

    session: Session
    before: Command
    events: tuple[Event, ...]
    after: Command
    status: Status

    def lines(self) -> list[str]:
        """The events as lines, without the frame of a single step (resumed, paused)."""
        return [stable(event_line(e)) for e in self.events if not _frame(e)]

    def _next(self) -> str:
        return where(self.status) if isinstance(self.after, Rest) else described(self.after)

    def text(self) -> str:
        """The step as text."""
        return joined(
            f"{self.session.id}: {described(self.before)}",
            *(f"  {line}" for line in self.lines()),
            f"next: {self._next()}",
        )

    def html(self) -> str:
        """The step as HTML."""
        return card(
            self.session.id,
            code(described(self.before)),
            lines_html(self.lines()),
            f"{paragraph('next:', quiet=True)} {code(self._next())}",
        )


@dataclass(frozen=True, repr=False)
class PlanView(Shown):
    """The next command of the harness, described and not done."""

    session: Session
    command: Command
    status: Status

    def text(self) -> str:
        """The command in one line; a recovery with its steps below it."""
        what = where(self.status) if isinstance(self.command, Rest) else described(self.command)
        touches = ", touches the world outside the log" if self.command.io else ""
        return joined(f"{self.session.id}, not done yet: {what}{touches}", *(f"  {line}" for line in self._steps()))

    def _steps(self) -> list[str]:
        """The steps of a recovery, in order; nothing for any other command."""
        return [stable(line) for line in self.command.plan] if isinstance(self.command, StartRecovery) else []

    def html(self) -> str:
        """The command as HTML."""
        what = where(self.status) if isinstance(self.command, Rest) else described(self.command)
        touches = "touches the world outside the log" if self.command.io else "touches nothing outside the log"
        steps = lines_html(self._steps()) if self._steps() else ""
        return card(f"{self.session.id}, not done yet", f"{code(what)} {paragraph(touches, quiet=True)}", steps)


def described(command: Command) -> str:
    """A command in one line, without what changes from run to run."""
    if isinstance(command, StartRecovery):
        return f"StartRecovery(cause={command.cause!r})"
    return stable(command.describe())


def _frame(event: Event) -> bool:
    if event.type == "session_paused":
        return bool(event.payload["reason"] == "step")
    return event.type == "resume_requested"
