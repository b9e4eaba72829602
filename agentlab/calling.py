"""What a user's callable may ask about the call it is in: the key of its effect, the parameters of its task.

Context variables, so that threads and coroutines that copy the context see them too. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any

_NO_PARAMS: Mapping[str, Any] = MappingProxyType({})
_key: ContextVar[str | None] = ContextVar("agentlab_effect_key", default=None)
_params: ContextVar[Mapping[str, Any]] = ContextVar("agentlab_task_params", default=_NO_PARAMS)


def effect_key() -> str | None:
    """The idempotency key of the effect that is being executed or verified; None outside an external tool.

    It is the same over retries and restarts: pass it on to a service that takes such keys.
    """
    return _key.get()


def task_params() -> Mapping[str, Any]:
    """The parameters of the task in whose session this call runs, read-only; empty outside a session."""
    return _params.get()


class during:
    """``with during(key, params):`` sets what :func:`effect_key` and :func:`task_params` say. For tool hosts."""

    __slots__ = ("_key", "_key_token", "_params", "_params_token")

    def __init__(self, key: str | None, params: Mapping[str, Any]) -> None:
        self._key, self._params = key, MappingProxyType(dict(params)) if params else _NO_PARAMS

    def __enter__(self) -> None:
        self._key_token: Token[str | None] = _key.set(self._key)
        self._params_token: Token[Mapping[str, Any]] = _params.set(self._params)

    def __exit__(self, *_: object) -> None:
        _params.reset(self._params_token)
        _key.reset(self._key_token)
