"""compare: checkpoint policies and schemes against each other, with numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from agentlab.comparing import options as o
from agentlab.comparing.compared import Compared
from agentlab.comparing.progress import Progress, Watch, use
from agentlab.lab.parameters import parameters
from agentlab.notebook import completion
from agentlab.notebook.display import mode
from agentlab.notebook.place import current, model_named, task_named
from agentlab.notebook.registry import Request, verb
from agentlab.policies import TRIGGERS


@verb(
    "compare", "which checkpoint policy costs what, under crashes",
    "%agent compare sales_report --policy every=1,5,20 --policy daly --mtbf 60s --seeds 20", o.add_arguments,
)  # fmt: skip
def compare(request: Request) -> Compared:
    """Run the comparison; a bar shows how far it is while the cell waits."""
    from agentlab.comparing.command import compare_as_asked

    asked, lab = request.options, request.place.lab
    what_if = asked.mode == "what-if" and asked.task in lab.store.sessions()
    task = asked.task if what_if else task_named(asked.task, request.namespace)
    params = parameters(task, asked.param) if asked.param and not what_if else None
    return compare_as_asked(asked, task, lab, model_named(asked.model, request.namespace), params)


class _Bar:
    """One display that is updated while the cell waits."""

    def __init__(self) -> None:
        from IPython import display

        show: Any = display.display
        self._handle: Any = show(_Shown("…"), display_id=True)

    def __call__(self, progress: Progress) -> None:
        self._handle.update(_Shown(progress.line()))


class _Shown:
    def __init__(self, line: str) -> None:
        self._line = line

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        return f"<pre style='margin:0;background:transparent'>{escape(self._line)}</pre>"


def _bar() -> Watch | None:
    return _Bar() if mode() == "live" else None


use(_bar)


def _faults(namespace: Mapping[str, Any]) -> list[str]:
    return [name + ":" for name in o.FAULTS]


def _policies(namespace: Mapping[str, Any]) -> list[str]:
    return [*TRIGGERS, "default", "every=", "steps=", "seconds="]


_SOURCES: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "faults": _faults,
    "baseline": _policies,
    "mtbf": lambda namespace: ["30s", "60s", "5m", "1h"],
    "name": lambda namespace: [s for s in current().lab.store.sessions() if s.startswith(("compare-", "sweep-"))],
}
completion.SOURCES.update(_SOURCES)
