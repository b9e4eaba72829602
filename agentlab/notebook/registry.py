"""The verbs of ``%agent``, in one table. Modules add their own; the parser knows none of them by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from agentlab.notebook.place import Place


@dataclass(frozen=True, slots=True)
class Request:
    """One use of a verb: its parsed options, the cell's body (None for a line), the user's names, and the place.

    ``text`` is what follows the options, as it was written; only verbs that take text have it.
    """

    options: argparse.Namespace
    cell: str | None
    namespace: Mapping[str, Any]
    place: Place
    text: str = ""


Arguments = Callable[[argparse.ArgumentParser], None]
Action = Callable[[Request], Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: what it is called, one line of help, an example, its arguments, and what it does.

    ``action`` returns the object to show. ``takes_cell`` says whether ``%%agent`` makes sense for it; ``takes_text``
    that what stands after its options is text in a language of its own, quotes and dashes included.
    """

    name: str
    help: str
    example: str
    arguments: Arguments
    action: Action
    takes_cell: bool = False
    takes_text: bool = False


_verbs: dict[str, Verb] = {}


def register(new: Verb) -> Verb:
    """Add a verb; one of the same name is replaced."""
    _verbs[new.name] = new
    return new


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a verb that takes none."""


def verb(
    name: str,
    help: str,
    example: str = "",
    arguments: Arguments = no_arguments,
    *,
    takes_cell: bool = False,
    takes_text: bool = False,
) -> Callable[[Action], Action]:
    """Make a function of a :class:`Request` a verb."""

    def add(action: Action) -> Action:
        register(Verb(name, help, example or f"%agent {name}", arguments, action, takes_cell, takes_text))
        return action

    return add


def all_verbs() -> dict[str, Verb]:
    """Every verb by name; the modules in :mod:`agentlab.notebook.verbs` are imported at the first call."""
    from agentlab.notebook import verbs

    for module in sorted(found.name for found in iter_modules(verbs.__path__)):
        import_module(f"{verbs.__name__}.{module}")
    return dict(sorted(_verbs.items()))
