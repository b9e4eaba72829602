"""Sessions whose files can not be read: left out of what is asked of several, and named."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])


class DamagedSession(UserWarning):
    """A session of a lab can not be read and is not in the answer; the message names it, the file, and what to do."""


@dataclass(frozen=True, slots=True)
class DamagedFile(Exception):
    """A file that was to be read does not verify."""

    path: str
    reason: str


def warn_of(damaged: Mapping[str, str]) -> None:
    """Warn of each session at the line outside this package that asked."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    for session_id, reason in damaged.items():
        message = f"session {session_id} is damaged and not in the answer: {reason}"
        warnings.warn(message, DamagedSession, stacklevel=level)


@contextmanager
def telling(say: Callable[[str], None]) -> Iterator[None]:
    """Say each damaged session once, as a line, instead of warning of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedSession)
        yield
    said: set[str] = set()
    for warning in caught:
        text = str(warning.message)
        if not issubclass(warning.category, DamagedSession):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif text not in said:
            said.add(text)
            say(text)
