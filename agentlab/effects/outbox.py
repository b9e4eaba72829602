"""The outside of a task that was given no receiver: a ledger file in the lab, one line per notification sent.

It is the receiver's own ledger without the process around it: one line per key however often it is asked, on disk
before the answer, looked up by key after a crash. So the demo task runs to its end, after a kernel restart as well,
without anything to be started first.
"""

from __future__ import annotations

import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.effects.outside import OutsideError
from agentlab.errors import AgentlabError

if TYPE_CHECKING:
    from agentlab.effects.receiver import Ledger

NAME = "outbox.jsonl"
SCHEME = "file:"
HELD_S = 30.0
"""How long another session may hold the file."""
_NOTIFIES = "agentlab.effects.notify"


def notifies(task: Any) -> bool:
    """Whether a task has a tool that sends a notification."""
    functions = (getattr(tool, "__wrapped_tool__", tool) for tool in task.tools)
    return any(getattr(function, "__module__", "") == _NOTIFIES for function in functions)


def with_outbox(task: Any, params: Mapping[str, Any] | None, lab: Path) -> dict[str, Any] | None:
    """The parameters of a task that notifies and names no ``receiver_url``, with the lab's outbox; None for any other."""
    declared = getattr(task, "params", None)
    if not isinstance(declared, Mapping) or not isinstance(params or {}, Mapping):
        return None  # for the definition to refuse
    given = {**declared, **(params or {})}
    if "receiver_url" in given or not notifies(task):
        return None
    return {**given, "receiver_url": (lab.resolve() / NAME).as_uri()}


def deliver(url: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    """Note the notification, once per key; the answer, the same every time. Raises OutsideError."""
    if not key:
        raise OutsideError(f"{url}: a notification needs an idempotency_key", sent=False)
    with _opened(url) as ledger:
        try:
            record, known = ledger.execute(key, body)
        except OSError as error:
            raise OutsideError(f"{url}: not written ({error})") from error
    if known and record["body"] != body:
        raise OutsideError(f"{url}: key {key} was used with another body", sent=False)
    answer: dict[str, Any] = record["response"]
    return answer


def find(url: str, key: str) -> dict[str, Any] | None:
    """The line of ``key``, None when there is none. Raises OutsideError."""
    with _opened(url) as ledger:
        return ledger.find(key)


@contextmanager
def _opened(url: str) -> Iterator[Ledger]:
    from agentlab.effects.receiver import Ledger

    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
    deadline = time.monotonic() + HELD_S
    while True:
        try:
            if not path.parent.is_dir():
                raise OutsideError(f"{url}: there is no such folder", sent=False)
            ledger = Ledger(path)
            break
        except (AgentlabError, OSError) as error:
            if isinstance(error, OutsideError) or time.monotonic() > deadline:
                raise OutsideError(f"{url} can not be opened: {error}", sent=False) from error
            time.sleep(0.01)  # another session of the lab is sending
    try:
        yield ledger
    finally:
        ledger.close()
