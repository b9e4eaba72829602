"""A session as a person answers it: the open question, what waits for approval, and effects in doubt."""

from __future__ import annotations

from typing import Any

from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.events import Draft
from agentlab.lab.awaited import AwaitedSession
from agentlab.session.foldinputs import ANSWERS


class AnsweredSession(AwaitedSession):
    """One session of a lab, to be read, waited for, paused and answered. An answer is an input: nothing runs by it."""

    def reply(self, text: str) -> None:
        """Answer the open question.

        Raises:
            BadDefinition: the answer is no text, or an empty one.
        """
        if not isinstance(text, str) or not text.strip():
            raise BadDefinition(f"an answer is a text with something in it, not {text!r}")
        self._answer("user_reply", {"text": text})

    def approve(self, note: str = "") -> None:
        """Approve what the open question asks."""
        self._answer("approval_given", {"note": note})

    def deny(self, note: str = "") -> None:
        """Deny what the open question asks."""
        self._answer("approval_denied", {"note": note})

    def _answer(self, kind: str, payload: dict[str, Any]) -> None:
        control = self.state.control
        if control.status != "waiting":
            raise UserError(f"session {self.id!r} asks nothing now: {self.status()}")
        about = str(control.question.get("kind"))
        if kind not in ANSWERS.get(about, {kind}):
            key = control.question.get("key")
            how = {"effect": f"settle {key} done, retry or skip", "approval": "approve or deny"}.get(about, "reply")
            raise UserError(f"session {self.id!r} asks: {control.question.get('question', '')} Answer with {how}")
        self.add_input(Draft(kind, {"id": self.lab.ids.new("i"), "question_seq": control.question_seq, **payload}))

    def settle(self, key: str, decision: str) -> None:
        """Decide on an effect in doubt: ``done``, ``retry`` or ``skip``.

        Raises:
            UnknownName, BadDefinition: no such effect in doubt, or no such decision.
        """
        doubtful = [call.key for call in self.state.calls if call.status == "in_doubt"]
        if key not in doubtful:
            raise UnknownName("effect in doubt", key, doubtful)
        if decision not in ("done", "retry", "skip"):
            raise BadDefinition(f"settle with done, retry or skip, not {decision!r}")
        self.add_input(Draft("effect_settled", {"id": self.lab.ids.new("i"), "key": key, "decision": decision}))
