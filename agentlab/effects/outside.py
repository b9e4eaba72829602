"""What all adapters share: the error of a failed try, the pair of functions of an effect, and what verify answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agentlab.calling import effect_key
from agentlab.errors import AgentlabError


class OutsideError(AgentlabError):
    """A try that gave no usable answer. ``sent`` is False when surely nothing reached the outside.

    ``status`` is the status code of the reply, None when there was none.
    """

    def __init__(self, message: str, *, sent: bool = True, status: int | None = None) -> None:
        super().__init__(message)
        self.sent, self.status = sent, status


class Effect(NamedTuple):
    """The two functions of one external effect, ready for ``tool(effect.run, verify=effect.verify, …)``."""

    run: Callable[..., Any]
    verify: Callable[..., dict[str, Any]]
    honours_key: bool


def completed(result: Any, evidence: str) -> dict[str, Any]:
    """Verify's answer for an effect that was found; ``result`` is what the lost reply would have said."""
    return {"outcome": "completed", "result": result, "evidence": evidence}


def not_done(evidence: str) -> dict[str, Any]:
    """Verify's answer for an effect that the outside surely does not have."""
    return {"outcome": "not_done", "evidence": evidence}


def unknown(evidence: str) -> dict[str, Any]:
    """Verify's answer when the outside could not be asked or can not tell."""
    return {"outcome": "unknown", "evidence": evidence}


def key_or_current(idempotency_key: str) -> str:
    """``idempotency_key``, or that of the call in progress. Raises OutsideError when there is neither."""
    if idempotency_key:
        return idempotency_key
    key = effect_key()
    if not key:
        # Without a key a retry could not be told from a second wish, so nothing is sent.
        raise OutsideError("an external effect needs an idempotency_key: declare the tool external", sent=False)
    return key
