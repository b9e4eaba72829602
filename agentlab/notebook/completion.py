"""Completion of ``%agent`` lines: verbs, options, tasks, sessions, crash points, policies."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from IPython.core.completer import SimpleCompletion

from agentlab import authoring
from agentlab.budget.dimensions import DERIVED, DIMENSIONS
from agentlab.definition import Limits
from agentlab.errors import AgentlabError
from agentlab.faults.kinds import TARGETS
from agentlab.faults.spec import points
from agentlab.lab.registry import in_doubt
from agentlab.notebook.linewords import BY_WORDS
from agentlab.notebook.parsing import VerbParser, split
from agentlab.notebook.place import current, tasks_in
from agentlab.notebook.registry import all_verbs
from agentlab.policies import TRIGGERS
from agentlab.query.views import VIEWS

_LINE = re.compile(r"^\s*(?:[\w.,\[\] ]+=\s*)?((?:%%?)?agent\s.*)$")
_WORD = re.compile(r"\S*$")
_PYTHON = ("{", "$")
"""How a word begins that the shell expands: it is completed as Python."""


def install(shell: Any) -> None:
    """Hook completion into the shell, once."""
    if not _installed(shell):
        shell.Completer.custom_matchers.append(_Matcher(shell))


def remove(shell: Any) -> None:
    """Take completion back."""
    for matcher in _installed(shell):
        shell.Completer.custom_matchers.remove(matcher)


def _installed(shell: Any) -> list[_Matcher]:
    return [matcher for matcher in shell.Completer.custom_matchers if isinstance(matcher, _Matcher)]


class _Matcher:
    """A matcher of the shell that answers alone in an ``%agent`` line: Python's names and keywords are no words of it."""

    matcher_api_version = 2
    matcher_identifier = "agentlab"

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.__qualname__ = type(self).__qualname__  # the shell reads it of every matcher, as if all were functions

    def __call__(self, context: Any) -> dict[str, Any]:
        found = _LINE.match(context.text_until_cursor)
        word = _WORD.search(context.text_until_cursor)
        if found is None or word is None or any(mark in word[0] for mark in _PYTHON):
            return {"completions": []}
        line = found[1]
        if not line.startswith("%") and (context.cursor_line or not self._bare(found[0])):
            return {"completions": []}
        names = complete(line, self._shell.user_ns)
        return {
            "completions": [SimpleCompletion(name, type="magic") for name in names],
            "matched_fragment": word[0],
            "suppress": True,
            "do_not_suppress": set() if names else {"IPCompleter.file_matcher"},
            "ordered": True,
        }

    def _bare(self, line: str) -> bool:
        """Whether ``agent`` without a percent sign is the magic here."""
        return bool(self._shell.automagic) and "agent" not in self._shell.user_ns and line.lstrip().startswith("agent")


def complete(line: str, namespace: Mapping[str, Any]) -> list[str]:
    """What the word at the end of ``line`` (``%agent …``, up to the cursor) can become, as whole words."""
    words = split(line)[1:]
    word = "" if not line or line[-1].isspace() else words.pop() if words else ""
    verbs = all_verbs()
    if not words:
        return _fitting(word, verbs)
    if words[0] not in verbs:
        return []
    parser = VerbParser(verbs[words[0]])
    action = _value_of(parser, words[-1])
    others = tuple(words[1:])
    if action is not None:
        return _fitting(word, _choices(action, namespace, others))
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        action = _value_of(parser, option)
        return [f"{option}={found}" for found in _fitting(value, _choices(action, namespace, others))] if action else []
    if word.startswith("-"):
        return _fitting(word, (option for option in parser.options_known() if option.startswith("--")))
    given = [
        w
        for before, w in zip(words, words[1:], strict=False)
        if not w.startswith("-") and not _value_of(parser, before)
    ]
    positionals = parser.positionals()
    left = positionals[len(given) :] or [last for last in positionals[-1:] if last.nargs in ("*", "+")]
    found = _fitting(word, _choices(left[0], namespace, others)) if left else []
    return found or (_fitting("", parser.options_known()) if not word and not left else [])


def _fitting(word: str, names: Iterable[str]) -> list[str]:
    # Event numbers by their size; every other word by its letters.
    found = {name for name in names if name.startswith(word)}
    return sorted(found, key=lambda name: (int(name), "") if name.isdecimal() else (0, name))


def _value_of(parser: VerbParser, option: str) -> argparse.Action | None:
    """The option whose value comes next, or None."""
    for action in parser._actions:
        if option in action.option_strings and action.nargs != 0:
            return action
    return None


def _choices(action: argparse.Action, namespace: Mapping[str, Any], others: Sequence[str]) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    source, by_words = SOURCES.get(action.dest), BY_WORDS.get(action.dest)
    try:
        if by_words is not None:
            return list(by_words(namespace, others))
        return list(source(namespace)) if source else []
    except (AgentlabError, OSError):
        return []


def _sessions(namespace: Mapping[str, Any]) -> list[str]:
    return list(current().lab.store.sessions())


def _crashes(namespace: Mapping[str, Any]) -> list[str]:
    return [f"{target}@{point}" for target in TARGETS for point in [*points(), "step=", "seq=", "after="]]


def _tools(namespace: Mapping[str, Any]) -> list[str]:
    return [name for name, value in namespace.items() if isinstance(value, authoring.Tool) and not name.startswith("_")]


def _checkpoints(namespace: Mapping[str, Any]) -> list[str]:
    rows = current().session().checkpoints()
    return ["newest", *(row.label for row in rows if row.label), *(str(row.seq) for row in rows)]


def _doubtful(namespace: Mapping[str, Any]) -> list[str]:
    return [effect.key for effect in in_doubt(current().session().effects())]


def _limits(namespace: Mapping[str, Any]) -> list[str]:
    return [f"{name}=" for name in sorted({field.name for field in fields(Limits)} | {"cost", *DERIVED})]


def _extensions(namespace: Mapping[str, Any]) -> list[str]:
    return ["extend", "limit", "quota", *(f"{name}=" for name in ("cost", *DIMENSIONS, *DERIVED))]


SOURCES: dict[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "task": lambda namespace: [*tasks_in(namespace), *authoring.task_names()],
    "session": _sessions,
    "a": _sessions,
    "b": _sessions,
    "checkpoint": _checkpoints,
    "key": _doubtful,
    "limit": _limits,
    "words": _extensions,
    "crash": _crashes,
    "policy": lambda namespace: [*TRIGGERS, "default", "every=", "steps="],
    "tool": _tools,
    "tools": _tools,
    "verb": lambda namespace: all_verbs(),
    "query": lambda namespace: VIEWS,
}
"""Where the values of an argument come from, by its ``dest``; modules of new verbs add theirs."""
