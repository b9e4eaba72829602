"""What real runs need of the outside: a receiver for tasks that notify one and were given none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentlab.effects.outbox import notifies


@contextmanager
def outside_of(task: Any, overrides: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """The overrides, with the address of a receiver that lives as long as the runs where the task needs one."""
    params = {**getattr(task, "params", {}), **(overrides.get("params") or {})}
    if "receiver_url" in params or not notifies(task):
        yield dict(overrides)
        return
    from agentlab.effects.receiver import ReceiverProcess

    with ReceiverProcess(folder / "receiver") as receiver:
        yield {**overrides, "params": {**params, "receiver_url": receiver.url}}
