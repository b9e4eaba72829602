"""Buttons: what each does, whether it can act now and why not, and the line that says what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from html import escape
from typing import Any

from agentlab.counting import counted
from agentlab.lab import Session
from agentlab.notebook.panel.allowed import Moment, why_not
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.judging import Judge, Say

LEAVES_S = 30.0
"""How long a harness that has come to rest may take to leave; a loaded machine may need seconds for it."""


class SaidLine:
    """One line under the buttons: what was done, or why it can not be done. Read aloud by screen readers."""

    def __init__(self, widgets: Any) -> None:
        self.box = widgets.HTML()
        self("ready", False)

    def __call__(self, text: str, bad: bool = False) -> None:
        """Say it."""
        kind = "al-said bad" if bad else "al-said"
        self.box.value = (
            f"<div class='{kind}' role='status' aria-live='polite'>{'✗ ' if bad else ''}{escape(text)}</div>"
        )


class Control:
    """A button with its work. A button that can not act looks so, says why when pointed at, and says it when pressed.

    It is never disabled: a disabled button loses the keyboard's focus and can not explain itself.
    """

    def __init__(
        self,
        widgets: Any,
        words: str,
        action: str,
        deeds: Deeds,
        judge: Judge,
        say: Say,
        work: Callable[[Session], str],
        *,
        help: str,
        style: str = "",
        after: Callable[[], None] = lambda: None,
        also: Callable[[], str] = lambda: "",
        about: Callable[[Moment], str] | None = None,
    ) -> None:
        self._about, self._told = about, help
        self.button = widgets.Button(description=words, tooltip=help)
        if style:
            self.button.add_class(style)
        self.words, self.action, self.help = words.strip(), action, help
        self._deeds, self._judge, self._say, self._work, self._after, self._also = deeds, judge, say, work, after, also
        self._busy = False
        self._begins = threading.Lock()
        self._why = ""
        self.button.on_click(self._pressed)

    def why_not(self, now: Moment) -> str:
        """Why it can not act; empty when it can."""
        return why_not(self.action, now) or self._also()

    def show(self, now: Moment) -> None:
        """Bring the looks up to date."""
        why = self.why_not(now)
        if why != self._why:
            self._why = why
            (self.button.add_class if why else self.button.remove_class)("al-cannot")
        about = f": {self._about(now)}" if self._about is not None and not why else ""
        tooltip = f"can not act now: {why}" if why else self.help + about
        if tooltip != self._told:
            self._told = self.button.tooltip = tooltip

    def _pressed(self, _: Any) -> None:
        if self._busy:
            self._say(f"{self.words}: already on it", False)
            return
        self._judge.press(self.words, self.why_not, self._act)

    def _act(self) -> None:
        with self._begins:
            if self._busy:  # pressed twice, and what the first press was about is being done
                return
            self._busy = True
        self.button.add_class("al-busy")
        self._say(f"{self.words} …", False)
        self._deeds.do(self._work, self._done)

    def _done(self, result: Any, complaint: str) -> None:
        self._busy = False
        self.button.remove_class("al-busy")
        self._say(f"{self.words}: {complaint or result}", bool(complaint))
        self._after()


def go(session: Session) -> str:
    """Start a session that has not begun, wake one that rests or crashed."""
    if session.status().status == "new" and not session.state.incarnation:
        session.start()
        return "started"
    if session.status().status in ("paused", "waiting"):
        session.wait(LEAVES_S)  # its harness leaves after it came to rest: a wake before that would count on it
    session.wake(background=True)
    return "woken: a new harness goes on after the cursor"


def one_step(session: Session) -> str:
    """Do exactly one command."""
    planned = session.plan().describe()
    events = session.step()
    return f"did {planned}: {counted(len(events), 'event')}"


def pause(session: Session) -> str:
    """Ask for a pause at the next safe point."""
    session.pause("by hand")
    return "asked; it rests at the next safe point"


def checkpoint(session: Session) -> str:
    """Ask for a checkpoint by hand."""
    session.checkpoint("by hand")
    return "asked; it is written before the next command"


def killing(target: str) -> Callable[[Session], str]:
    """SIGKILL ``target``, after checking pid and start time."""

    def work(session: Session) -> str:
        return f"SIGKILL to {session.kill(target)}, start time checked"

    return work
