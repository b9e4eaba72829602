"""What a person is asked, and the ways to answer: reply, approve, deny, or decide on an effect in doubt."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from agentlab.lab import Session
from agentlab.notebook.panel.allowed import Moment
from agentlab.notebook.panel.controls import LEAVES_S, Control
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.judging import Judge, Say


class Asking:
    """Shown only while the session waits for a person. An answer also wakes it."""

    def __init__(self, widgets: Any, judge: Judge, deeds: Deeds, say: Say, soon: Callable[[], None]) -> None:
        self._question = widgets.HTML()
        self.text = widgets.Text(placeholder="your answer", continuous_update=False)
        made: dict[str, tuple[str, Callable[[Session], None]]] = {
            "reply": ("» reply", lambda s: s.reply(self.text.value)),
            "approve": ("✓ approve", lambda s: s.approve(self.text.value)),
            "deny": ("✗ deny", lambda s: s.deny(self.text.value)),
            "done": ("✓ it happened", lambda s: s.settle(_key(s), "done")),
            "retry": ("↻ do it again", lambda s: s.settle(_key(s), "retry")),
            "skip": ("→ go on without", lambda s: s.settle(_key(s), "skip")),
        }
        self.controls = {
            name: Control(
                widgets, words, "answer", deeds, judge, say, _answering(answer),
                help=f"{name}, and go on", after=soon, also=self._empty if name == "reply" else lambda: "",
            )
            for name, (words, answer) in made.items()
        }  # fmt: skip
        row = widgets.HBox([self.text, *(control.button for control in self.controls.values())])
        row.add_class("al-form")
        self.box = widgets.VBox([self._question, row])
        self.box.add_class("al-question")
        self.box.layout.display = "none"

    def _empty(self) -> str:
        return "" if self.text.value.strip() else "write the answer into the field first"

    def show(self, now: Moment) -> None:
        """Show the open question, or nothing."""
        display = "" if now.word == "waiting" else "none"
        if self.box.layout.display != display:
            self.box.layout.display = display
        if display:
            return
        question = now.state.control.question
        kind = str(question.get("kind") or "")
        words = f"<b>? {escape(str(question.get('question', '')))}</b>"
        if self._question.value != words:
            self._question.value = words
        offered = {"effect": ("done", "retry", "skip"), "approval": ("approve", "deny")}.get(kind, ("reply",))
        for name, control in self.controls.items():
            shown = "" if name in offered else "none"
            if control.button.layout.display != shown:
                control.button.layout.display = shown
            control.show(now)


def _key(session: Session) -> str:
    return str(session.state.control.question.get("key", ""))


def _answering(answer: Callable[[Session], None]) -> Callable[[Session], str]:
    def work(session: Session) -> str:
        session.wait(LEAVES_S)  # its harness leaves after it has asked: a wake before that would count on it
        answer(session)
        session.wake(background=True)
        return "answered; it goes on"

    return work
