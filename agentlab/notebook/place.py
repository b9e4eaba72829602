"""Where the notebook is: the lab, the session in hand, and what names mean here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentlab import authoring
from agentlab.authoring import Task, Tool
from agentlab.counting import counted
from agentlab.errors import AgentlabError, UnknownName, UserError
from agentlab.lab import Lab, Session
from agentlab.lab.accepting import begun_by_experiment
from agentlab.lab.lab import DEFAULT


@dataclass
class Place:
    """The lab and the session that verbs mean when none is named. A convenience: everything true is in the log."""

    lab_or_none: Lab | None = None
    session_or_none: Session | None = None
    _labs: dict[Path, Lab] = field(default_factory=dict)

    @property
    def lab(self) -> Lab:
        """The lab in hand; ``./lab`` when none was chosen."""
        return self.lab_or_none or self.go(DEFAULT)

    def go(self, path: str | Path) -> Lab:
        """Take a lab in hand. Sessions of the one before keep running.

        Raises:
            BadLab: the path can not be a lab.
        """
        full = Path(path).expanduser().absolute()
        lab = self._labs.get(full)
        if lab is not None and not full.exists():  # deleted to begin anew: what is known of it is no longer true
            lab.close()
            lab = None
        lab = lab or Lab(full)
        self._labs[full] = lab
        if lab is not self.lab_or_none:
            self.lab_or_none, self.session_or_none = lab, None
        return lab

    def take(self, session: Session) -> Session:
        """Take a session in hand."""
        self.session_or_none = session
        return session

    def session(self, session_id: str | None = None) -> Session:
        """The session of that id, or the one in hand, or of those that a person began the one in which something happened last.

        Sessions of comparisons and sweeps come into hand by their id only; so do damaged ones.

        Raises:
            UnknownName: no such session (near matches in the message).
            UserError: the lab has none.
        """
        if session_id is not None:
            return self.take(self.lab.session(session_id))
        if self.session_or_none is not None:
            return self.session_or_none
        known = self.lab.store.sessions()
        if not known:
            raise UserError("there is no session here yet: begin one, as in %agent run sales_report")
        newest = next((one for one in self._newest_first(known) if not begun_by_experiment(one.log)), None)
        if newest is None:
            raise UserError(
                f"there is no session here that a person began (and that can be read): begin one, as in %agent run sales_report,"
                f" or name one of {counted(len(known), 'session')}: {', '.join(known[:5])}{' …' if len(known) > 5 else ''}"
            )
        return self.take(newest)

    def _newest_first(self, known: Iterable[str]) -> list[Session]:
        found: list[tuple[int, str, Session]] = []
        for session_id in known:
            try:
                session = self.lab.session(session_id)
                found.append((session.state.ts, session_id, session))
            except AgentlabError:  # a damaged one hides no other
                continue
        return [session for _, _, session in sorted(found, key=lambda one: one[:2], reverse=True)]


_current = Place()


def current() -> Place:
    """The notebook's lab and session in hand."""
    return _current


# --- names of tasks, tools and models ----------------------------------------------------------------------------------


def tasks_in(namespace: Mapping[str, Any]) -> dict[str, Task]:
    """Tasks defined in cells, by variable and by their own name; a variable's name comes first."""
    found = {name: value for name, value in namespace.items() if isinstance(value, Task) and not name.startswith("_")}
    return {**{value.name: value for value in found.values()}, **found}


def task_named(name: str, namespace: Mapping[str, Any]) -> Task:
    """The task of that name: of a cell, registered, built in, or of a module that it names.

    Raises:
        UnknownName: there is none (near matches among all of them).
        BadDefinition: its module can not be imported.
    """
    mine = tasks_in(namespace)
    if name in mine:
        return mine[name]
    known = {*mine, *authoring.task_names()}
    if name not in known and not authoring.names_module(name):
        raise UnknownName("task", name, known)
    return authoring.task(name)


def tools_named(names: Iterable[str], namespace: Mapping[str, Any]) -> list[Any]:
    """Tools defined in cells: what ``@tool`` made, or a plain function.

    Raises:
        UnknownName: no such tool (near matches in the message).
    """
    mine = {n: v for n, v in namespace.items() if isinstance(v, Tool) and not n.startswith("_")}
    mine = {**{tool.name: tool for tool in mine.values()}, **mine}
    found: list[Any] = []
    for name in names:
        value = mine.get(name) or namespace.get(name)
        if not callable(value) or isinstance(value, type):
            functions = {n for n, v in namespace.items() if callable(v) and hasattr(v, "__code__") and n[0] != "_"}
            raise UnknownName("tool", name, {*mine, *functions})
        found.append(value)
    return found


def model_named(name: str | None, namespace: Mapping[str, Any]) -> Any:
    """A policy or model defined in a cell, or the name as it is."""
    value = namespace.get(name) if name else None
    return value if callable(value) or hasattr(value, "complete") else name
