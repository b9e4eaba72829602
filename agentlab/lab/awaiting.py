"""Waiting without keeping the kernel busy: ``await session.wait()`` in a cell, while widgets stay alive.

A blocking wait must stay a plain call, in scripts and in cells, and an awaited one must not block before it is awaited.
So :meth:`agentlab.lab.Session.wait` looks at how it is called: directly under ``await`` it gives back something to
await, everywhere else it waits.
"""

from __future__ import annotations

import asyncio
import dis
import inspect
from collections.abc import Callable, Generator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from agentlab.events import Event
from agentlab.lab.status import Status

if TYPE_CHECKING:
    from agentlab.lab.awaited import AwaitedSession

SLICE_S = 0.0
POLL_S = 0.05


def awaited(frame: FrameType | None) -> bool:
    """Whether the call that ``frame`` is in the middle of stands directly under ``await``."""
    if frame is None or not frame.f_code.co_flags & inspect.CO_COROUTINE:
        return False
    following = (i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti and i.opname != "CACHE")
    return getattr(next(following, None), "opname", "") == "GET_AWAITABLE"


class Waiting:
    """A wait that has not begun. Awaiting it gives the status; the event loop goes on meanwhile.

    When the cell is interrupted, the session is asked to pause at its next safe point, as a blocking run is.
    """

    def __init__(
        self, session: AwaitedSession, timeout_s: float | None, on_events: Callable[[Sequence[Event]], None] | None
    ) -> None:
        self._session, self._timeout_s, self._on_events = session, timeout_s, on_events

    def __await__(self) -> Generator[Any, None, Status]:
        return self._wait().__await__()

    async def _wait(self) -> Status:
        loop = asyncio.get_running_loop()
        deadline = None if self._timeout_s is None else loop.time() + self._timeout_s
        try:
            while True:
                try:
                    status: Status = self._session.wait(SLICE_S, self._on_events)
                    return status
                except TimeoutError:
                    if deadline is not None and loop.time() > deadline:
                        raise TimeoutError(
                            f"session {self._session.id!r} does not rest within {self._timeout_s} s;"
                            " it goes on in the background"
                        ) from None
                await asyncio.sleep(POLL_S)
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._session.pause("interrupted")
            raise
