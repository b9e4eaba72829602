"""Completion of ``%agent`` lines: verbs, options, tasks, sessions, crash points, policies."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentlab import authoring
from agentlab.errors import AgentlabError
from agentlab.faults.kinds import TARGETS
from agentlab.faults.spec import points
from agentlab.notebook.parsing import VerbParser, split
from agentlab.notebook.place import current, tasks_in
from agentlab.notebook.registry import all_verbs
from agentlab.policies import TRIGGERS
from agentlab.query.views import VIEWS

KEYS = ("%agent", "%%agent")
_HOOK = "complete_command"


def install(shell: Any) -> None:
    """Hook completion into the shell, once."""
    chains = shell.strdispatchers.get(_HOOK)
    if chains is not None and KEYS[0] in chains.strs:
        return
    for key in KEYS:
        shell.set_hook(_HOOK, _complete, str_key=key)


def remove(shell: Any) -> None:
    """Take completion back."""
    chains = shell.strdispatchers.get(_HOOK)
    for key in KEYS:
        if chains is not None:
            chains.strs.pop(key, None)


def _complete(shell: Any, event: Any) -> list[str]:
    before = getattr(event, "text_until_cursor", None) or event.line
    # The shell replaces only what follows the last of its delimiters (``@`` and ``=`` are some): answer that part.
    word = "" if before[-1:].isspace() else before.rsplit(None, 1)[-1]
    kept = len(word) - len(event.symbol) if word.endswith(event.symbol) else 0
    return [found[kept:] for found in complete(before, shell.user_ns)]


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
    if action is not None:
        return _fitting(word, _choices(action, namespace))
    if word.startswith("--") and "=" in word:
        option, _, value = word.partition("=")
        action = _value_of(parser, option)
        return [f"{option}={found}" for found in _fitting(value, _choices(action, namespace))] if action else []
    if word.startswith("-"):
        return _fitting(word, (option for option in parser.options_known() if option.startswith("--")))
    given = [
        w
        for before, w in zip(words, words[1:], strict=False)
        if not w.startswith("-") and not _value_of(parser, before)
    ]
    positionals = parser.positionals()
    left = positionals[len(given) :] or [last for last in positionals[-1:] if last.nargs in ("*", "+")]
    found = _fitting(word, _choices(left[0], namespace)) if left else []
    return found or (_fitting("", parser.options_known()) if not word and not left else [])


def _fitting(word: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(word)})


def _value_of(parser: VerbParser, option: str) -> argparse.Action | None:
    """The option whose value comes next, or None."""
    for action in parser._actions:
        if option in action.option_strings and action.nargs != 0:
            return action
    return None


def _choices(action: argparse.Action, namespace: Mapping[str, Any]) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    source = SOURCES.get(action.dest)
    try:
        return list(source(namespace)) if source else []
    except (AgentlabError, OSError):
        return []


def _sessions(namespace: Mapping[str, Any]) -> list[str]:
    return list(current().lab.store.sessions())


def _crashes(namespace: Mapping[str, Any]) -> list[str]:
    return [f"{target}@{point}" for target in TARGETS for point in [*points(), "step=", "seq=", "after="]]


def _tools(namespace: Mapping[str, Any]) -> list[str]:
    return [name for name, value in namespace.items() if isinstance(value, authoring.Tool) and not name.startswith("_")]


SOURCES: dict[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "task": lambda namespace: [*tasks_in(namespace), *authoring.task_names()],
    "session": _sessions,
    "crash": _crashes,
    "policy": lambda namespace: [*TRIGGERS, "default", "every=", "steps="],
    "tool": _tools,
    "tools": _tools,
    "verb": lambda namespace: all_verbs(),
    "query": lambda namespace: VIEWS,
}
"""Where the values of an argument come from, by its ``dest``; modules of new verbs add theirs."""
