"""The bench in a notebook: ``%agent`` and ``%%agent``, and what they show.

    %load_ext agentlab
    %agent run sales_report --crash harness@tool_result

The view is a function of the log and holds no truth: a new kernel shows the same. New verbs are modules in
:mod:`agentlab.notebook.verbs`, or functions given to :func:`verb`.
"""

from __future__ import annotations

from typing import Any

from agentlab.notebook.place import Place, current
from agentlab.notebook.registry import Request, Verb, all_verbs, register, verb

__all__ = ["Place", "Request", "Verb", "agent", "all_verbs", "current", "load", "register", "unload", "verb"]


def load(shell: Any) -> None:
    """Register the magic and its completion in ``shell``. Doing it twice changes nothing."""
    from agentlab.analysis.sources import lab_in_hand
    from agentlab.notebook import completion, magic

    lab_in_hand(lambda: current().lab)
    magic.install(shell)
    completion.install(shell)


def unload(shell: Any) -> None:
    """Take magic and completion back. Running sessions go on: they belong to the kernel, not to the magic."""
    from agentlab.notebook import completion, magic

    completion.remove(shell)
    magic.remove(shell)


def agent(line: str = "", cell: str | None = None, namespace: dict[str, Any] | None = None) -> Any:
    """What ``%agent line`` returns, for scripts and tests. Tasks and tools are looked up in ``namespace`` first.

    Raises:
        UserError: a mistake in the line, or one that the verb found.
    """
    from agentlab.notebook.parsing import dispatch

    return dispatch(line, cell, namespace if namespace is not None else {})
