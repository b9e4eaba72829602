"""A tool call as a few short hashes and flags: all that the guard remembers of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from agentlab.events import Json
from agentlab.guard import vocabulary as voc
from agentlab.guard.action import Action
from agentlab.guard.normalise import (
    call_key,
    error_class,
    plain_result,
    reduced_input,
    short_hash,
    tick,
    without_echoes,
)

ERROR = 1
"""The call failed, by its outcome or by the look of its text."""
TRANSIENT = 2
"""It failed in a way that passes by itself: a timeout, a limit, a lock."""
WAITING = 4
"""It waits, or was told that something is still under way."""
SLEEP = 8
"""A pure pause; it stands between calls and is none of them."""
FRUITLESS = 16
"""It found nothing, or failed without saying how."""
CHANGE = 32
"""By its name it changes the world, and it succeeded."""
FRESH = 64
"""A change that was not made before within the window."""
SIBLING = 128
"""Asked for before the result of its neighbour was known."""
SUBSTANTIAL = 256
"""Its result is long enough to be told from a mere *done*."""
SOFT_ERROR = 512
"""Its outcome was ok, its text reads like an error."""

SLEPT = 1024
"""A pure sleep stands right before it."""

BLIND = 2048
"""It moved through something and got a mere acknowledgement: what it saw is not in the text."""
MUSE = 4096
"""The tool only keeps the model's own words."""

LOOK = 8192
"""By its name it only looks."""


class Fingerprint(NamedTuple):
    """``key`` is the call, ``res`` its result, ``gist`` the result without echoes of the input, ``cls`` the class of
    error. ``ident`` and ``loose`` name what the arguments are about (paths, ids and numbers; the same without
    numbers), ``soft`` samples their other words: together with ``tool`` and ``gist`` the action vector. ``tick`` is a
    number that may be noise or a counter."""

    seq: int
    tool: str
    key: str
    res: str
    gist: str
    cls: str
    ident: str
    loose: str
    soft: tuple[int, ...]
    flags: int
    tick: tuple[int, bool]


_PROGRAM_SKIP = frozenset(("sudo", "env", "time", "nohup", "exec", "command", "stdbuf", "nice", "xargs"))
_WITH_VERB = frozenset(
    "git python python3 npm pnpm yarn cargo go docker kubectl pip uv make mix gh poetry str_replace_editor".split()
)
_SHELL_FIELDS = ("command", "cmd", "script")
_SLEEP_ONLY = re.compile(r"\s*(?:sleep|wait)(?:\s+[\d.]+\w?)?\s*;?\s*$")
_SLEEPS = re.compile(r"(?:^|[;&|(]|\bdo\b)\s*(?:sleep|wait|timeout)\s")
_WRITES = re.compile(
    r"(?<![<2&=-])>{1,2}\s*(?!/dev/null|&)[\w./~\"'$]|\bsed\s+(?:-\w+\s+)*-i|\b(?:tee|rm|mv|cp|mkdir|touch|patch|chmod|unzip|tar)\s|"
    r"\bgit\s+(?:add|commit|checkout|apply|stash|reset|restore|merge|rebase|clone|pull|push|rm|mv)\b|"
    r"\b(?:pip3?|npm|yarn|apt|apt-get|uv|poetry|cargo|conda)\s+(?:install|add|remove|uninstall)|\.write\(|write_text\("
)
_EMPTY_FIELDS = ("command", "cmd", "chars", "input", "keys", "text", "keystrokes")


def shell_command(value: Json) -> str | None:
    """The command line in an input, if it holds one."""
    if not isinstance(value, dict):
        return None
    for name in _SHELL_FIELDS:
        found = value.get(name)
        if isinstance(found, str):
            return found
        if isinstance(found, list) and found:
            return str(found[-1]) if len(found) > 1 and "sh" in str(found[0]) else " ".join(map(str, found))
    return None


def program(command: str) -> str:
    """The program that a command line is about: its first word after directory changes, settings and wrappers."""
    for part in re.split(r"&&|\|\||;|\n", command[:400]):
        tokens = part.split()
        while tokens and ("=" in tokens[0] or tokens[0] in _PROGRAM_SKIP or tokens[0] == "("):
            tokens.pop(0)
        if not tokens or tokens[0] in ("cd", "export", "set", "source", "echo", "sleep", ".") or tokens[0][0] == "#":
            continue
        name = tokens[0].rsplit("/", 1)[-1]
        inline = name.startswith("python") and "-c" in tokens[1:4]
        verb = next((t for t in tokens[1:4] if not t.startswith("-")), "") if name in _WITH_VERB and not inline else ""
        return f"{name} {verb}".strip()[:40]
    return (command.split() or [""])[0][:40]


def fingerprint(action: Action, volatile: Sequence[str], *, sibling: bool = False) -> Fingerprint:
    """The fingerprint of a call; FRESH is for the window to say."""
    value = reduced_input(action.input, (*volatile, *action.volatile))
    command = shell_command(value)
    if command is not None and isinstance(value, dict):
        command = _without_remarks(command)
        value = {**value, next(n for n in _SHELL_FIELDS if n in value): command}
    tool = action.tool if not command else f"{action.tool}:{program(command)}"
    named = set(voc.words(action.tool)) | set(voc.words(program(command)) if command else ())
    if isinstance(value, dict) and isinstance(value.get("action"), str) and len(value["action"]) <= 24:
        named |= set(voc.words(value["action"]))  # one tool with many verbs, as for browsers and desktops
    text = action.result_text
    told = text if action.outcome == "ok" else "\n".join(dict.fromkeys(filter(None, (action.error_text, text))))
    facts = _facts(action, value)
    whole = text if action.outcome == "ok" or action.error_text in (None, "", text) else f"{text}\n{action.error_text}"
    plain = plain_result(whole)
    gist = without_echoes(plain, facts.echoes)
    flags = _flags(action, command, value, named, told, gist)
    cls = error_class(action.error_type, told, facts.echoes) if flags & (ERROR | SOFT_ERROR) else ""
    if flags & ERROR and not cls:
        flags |= FRUITLESS
    return Fingerprint(
        seq=action.seq,
        tool=tool[:64],
        key=call_key(action.tool, value, ()),
        res=short_hash(action.outcome + (whole if action.stateful_read else plain)),
        gist=short_hash(action.outcome + gist),
        cls=cls,
        ident=facts.ident,
        loose=facts.loose,
        soft=facts.soft,
        flags=flags | (SIBLING if sibling else 0),
        tick=tick(whole),
    )


def _without_remarks(command: str) -> str:
    lines = command.strip().splitlines()
    while len(lines) > 1 and lines[0].lstrip().startswith("#") and not lines[0].startswith("#!"):
        lines.pop(0)  # a remark above the command is the model's own words
    return "\n".join(lines)


def _flags(action: Action, command: str | None, value: Json, named: set[str], told: str, gist: str) -> int:
    flags = 0
    if action.outcome == "error":
        flags |= ERROR
    elif voc.FAILED_TEXT.match(told):
        flags |= SOFT_ERROR
    head = f"{action.error_type or ''}\n{told[:200]}\n{told.rstrip()[-120:]}" if flags else ""
    if flags and voc.TRANSIENT.search(head):
        flags |= TRANSIENT
    if _is_sleep(command, named):
        flags |= SLEEP
    empty_wait = command is not None and not command.strip() or _is_empty_wait(value)
    slept = command is not None and bool(_SLEEPS.search(command))
    if not flags & ERROR and (empty_wait or voc.pending(told)):
        flags |= WAITING
    elif slept or (not flags & ERROR and _is_partial(named, command, told)):
        flags |= WAITING
    seeking = bool(named & voc.SEEKING)
    if not flags & (ERROR | WAITING) and (voc.FRUITLESS.match(told) or (seeking and not told.strip())):
        flags |= FRUITLESS
    if named & voc.LOOKING:
        flags |= LOOK
    if named & voc.MUSING:
        flags |= MUSE
    if named & voc.MOVING and voc.ACKNOWLEDGED.match(gist):
        flags |= BLIND
    changing = bool(named & voc.CHANGING) and not flags & MUSE and "view" not in named
    if command is not None and not changing:
        changing = bool(_WRITES.search(command[:2000]))
    if changing and not flags & (ERROR | SOFT_ERROR):
        flags |= CHANGE
    if len(gist) >= 100 or gist.count("\n") >= 3:
        flags |= SUBSTANTIAL
    return flags


def _is_sleep(command: str | None, named: set[str]) -> bool:
    if command is not None:
        return bool(command.strip()) and bool(_SLEEP_ONLY.match(command))
    return bool(named & voc.WAITING_TOOLS) and len(named) <= 2


def _is_empty_wait(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    texts = [value[n] for n in _EMPTY_FIELDS if n in value]
    return bool(texts) and all(isinstance(t, str) and not t.strip() for t in texts)


def _is_partial(named: set[str], command: str | None, told: str) -> bool:
    asks = named if command is None else named | set(voc.words(command[:200]))
    return len(told) <= 200 and bool(asks & voc.POLLING) and bool(voc.PARTIAL.search(told))


class _Facts(NamedTuple):
    ident: str
    loose: str
    soft: tuple[int, ...]
    echoes: tuple[str, ...]


_TOKEN = re.compile(r"[^\s\"'`,;(){}\[\]<>|=]+")
_WORDY = re.compile(r"[A-Za-z]+$")


def _facts(action: Action, value: Json) -> _Facts:
    """What the arguments are about, split into what identifies (paths, ids, numbers) and what describes (words)."""
    hard: list[str] = []
    numbers: list[str] = []
    words: set[str] = set()
    echoes: set[str] = set()
    for name, leaf in _leaves(value, ""):
        if isinstance(leaf, bool) or leaf is None or name.lower() in voc.KNOBS:
            continue
        if isinstance(leaf, float):
            continue  # a float is a setting far more often than a name
        if isinstance(leaf, int):
            numbers.append(str(leaf))
            if abs(leaf) > 9:
                echoes.add(str(leaf))
            continue
        if 3 <= len(leaf) <= 200:
            echoes.add(leaf)
        for token in _TOKEN.findall(leaf[:600])[:60]:
            if token.isdigit():
                numbers.append(token)
            elif _WORDY.match(token):
                words.add(token.lower())
            else:
                hard.append(token)
            if len(token) >= 4 and not token.isalpha():
                echoes.add(token)
    sample = sorted(int(short_hash(w)[:4], 16) for w in words)[:8]
    base = short_hash(" ".join(sorted(set(hard))))
    ident = short_hash(base + " ".join(numbers))
    return _Facts(ident, base, tuple(sample), tuple(sorted({e.lower() for e in echoes}, key=len, reverse=True)[:16]))


def _leaves(value: Json, name: str) -> list[tuple[str, Json]]:
    if isinstance(value, dict):
        return [leaf for k in sorted(value)[:30] for leaf in _leaves(value[k], str(k))]
    if isinstance(value, list):
        return [leaf for item in value[:20] for leaf in _leaves(item, name)]
    return [(name, value)]
