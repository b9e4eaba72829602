"""A tool host in this very process, for simulations: the same outcomes, no process, no timeout."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.ports import ToolInvocation, ToolOutcome
from agentlab.toolhost.capture import HeadTail
from agentlab.toolhost.invoking import Shape, failure, perform

Resolve = Callable[[Mapping[str, Any]], Callable[..., Any]]


class InProcessToolHost:
    """A :class:`~agentlab.ports.ToolHost` that calls what ``resolve(ref)`` gives.

    It can not kill: a callable that hangs hangs the caller. ``monotonic`` (seconds) measures durations; without it
    they are 0, so that two simulated runs are equal. Only output by way of ``sys.stdout`` and ``sys.stderr`` is
    captured. SimulatedDeath passes through.
    """

    def __init__(self, resolve: Resolve, monotonic: Callable[[], float] | None = None) -> None:
        self._resolve, self._monotonic = resolve, monotonic
        self._shapes: dict[int, tuple[Callable[..., Any], Shape]] = {}

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        """See :meth:`agentlab.ports.ToolHost.call`."""
        try:
            function, shape = self._loaded(invocation.ref)
        except Exception as error:
            before = f"{invocation.ref.get('name')} can not be loaded: "
            return ToolOutcome(**{**failure(error, before), "sent": False})
        request = {
            "call_id": invocation.call_id,
            "arguments": _copied(invocation.arguments),  # what a callable does to them must not reach the log
            "key": invocation.key,
            "params": invocation.params,
        }
        began = self._monotonic() if self._monotonic else 0.0
        before_out, before_err = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err = io.StringIO(), io.StringIO()
        try:
            outcome = perform(function, shape, request)
        finally:
            sys.stdout, sys.stderr = before_out, before_err
        duration_ms = round((self._monotonic() - began) * 1000, 3) if self._monotonic else 0.0
        return ToolOutcome(**outcome, stdout=_kept(out), stderr=_kept(err), duration_ms=duration_ms)

    def close(self) -> None:
        """Nothing to end."""

    def _loaded(self, ref: Mapping[str, Any]) -> tuple[Callable[..., Any], Shape]:
        function = self._resolve(ref)
        known = self._shapes.get(id(function))
        # The entry holds the function, so its id can not be another's meanwhile.
        if known is None:
            if len(self._shapes) >= 1000:
                self._shapes.clear()
            known = self._shapes[id(function)] = function, Shape(function)
        return known


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, (list, tuple)) else value


def _kept(stream: io.StringIO) -> str:
    if stream.closed or not (text := stream.getvalue()):
        return ""
    kept = HeadTail()
    kept.add(text.encode("utf-8", "backslashreplace"))
    return kept.text()
