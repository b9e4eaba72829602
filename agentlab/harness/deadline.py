"""A deadline over code that runs in this very process: a policy that hangs is interrupted, not waited for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from agentlab.errors import ModelError


class _Expired(BaseException):
    """Stands outside Exception, so that a policy that catches everything does not swallow its own deadline."""


@contextmanager
def model_deadline(seconds: float) -> Iterator[None]:
    """Interrupt what runs inside after ``seconds``. Only the main thread can be interrupted; elsewhere nothing happens.

    Raises:
        ModelError: of kind ``timeout``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(number: int, frame: FrameType | None) -> None:
        raise _Expired

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Expired:
        raise ModelError("timeout", f"the model did not answer within {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
