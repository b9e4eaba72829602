"""From a line to a verb's return value; what is wrong with a line is said in one line that names the near matches."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from agentlab.errors import UserError
from agentlab.notebook.place import current
from agentlab.notebook.registry import Request, Verb, all_verbs

_WORD = re.compile(r"""(?:[^\s"'=]*=)?(?:"[^"]*"|'[^']*')(?=\s|$)|\S+""")
_QUOTED = re.compile(r"""((?:[^\s"'=]*=)?)(["'])(.*)\2""", re.DOTALL)
_OPENED = re.compile(r"""(?:[^\s"'=]*=)?(["'])(?!.*\1)""", re.DOTALL)
_WRONG_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*?)' ")


class BadLine(UserError):
    """A line that can not be read as a verb with its options."""


class HelpAsked(Exception):
    """``-h`` stood in the line."""


def split(line: str) -> list[str]:
    """The words of a line. Quotes count only around a whole word or value, so that *don't* is a word like any other."""
    words = []
    for word in _WORD.findall(line):
        quoted = _QUOTED.fullmatch(word)
        words.append(quoted[1] + quoted[3] if quoted else word)
    return words


def left_open(words: Iterable[str]) -> str:
    """The word with a quote that is opened and never closed; empty when there is none. *don't* is not one."""
    return next((word for word in words if _OPENED.match(word)), "")


def near(wrong: str, known: Iterable[str], otherwise: str = "") -> str:
    """``: did you mean …?``, or what to say when nothing is near."""
    found = difflib.get_close_matches(wrong, sorted(known), n=3, cutoff=0.5)
    return f": did you mean {' or '.join(found)}?" if found else otherwise


class VerbParser(argparse.ArgumentParser):
    """The options of one verb; it raises instead of printing and leaving."""

    def __init__(self, verb: Verb) -> None:
        super().__init__(prog=f"%agent {verb.name}", description=verb.help, add_help=False, allow_abbrev=False)
        self.add_argument("-h", "--help", action=_Help, nargs=0, help="show this")
        verb.arguments(self)

    def options_known(self) -> list[str]:
        """Every option, long and short."""
        return [option for action in self._actions for option in action.option_strings]

    def positionals(self) -> list[argparse.Action]:
        """What stands without an option's name."""
        return [action for action in self._actions if not action.option_strings]

    def before_text(self, line: str) -> tuple[list[str], str]:
        """The options at the beginning of ``line``, with their values, and the text after them as it was written."""
        options: list[str] = []
        text = line.lstrip()
        while text.startswith("-") and not text.startswith("-- "):
            found = _WORD.match(text)
            assert found is not None
            options += split(found[0])
            text = text[found.end() :].lstrip()
            if self._wants_value(options[-1]) and (found := _WORD.match(text)):
                options += split(found[0])
                text = text[found.end() :].lstrip()
        return options, text

    def _wants_value(self, option: str) -> bool:
        return any(option in action.option_strings and action.nargs is None for action in self._actions)

    def error(self, message: str) -> NoReturn:
        """Raise :class:`BadLine`, with near matches for a value that is none of the choices."""
        wrong = _WRONG_CHOICE.search(message)
        if wrong:
            choices = [
                str(choice)
                for action in self._actions
                if wrong[1] in ("/".join(action.option_strings), action.metavar, action.dest)
                for choice in action.choices or ()
            ]
            message = f"{wrong[2]!r} is none of {', '.join(choices)}" + near(wrong[2], choices)
        message = message.replace("argument ", "").replace("the following arguments are required: ", "missing: ")
        raise BadLine(f"{self.prog}: {message.replace('expected one argument', 'a value must follow')}")

    def read(self, words: list[str]) -> argparse.Namespace:
        """The options that the words stand for, wherever they stand.

        Raises:
            BadLine: with near matches.
            HelpAsked: ``-h``.
        """
        try:
            options, left = self.parse_known_intermixed_args(words)
        except argparse.ArgumentError as error:
            self.error(str(error))
        if left:
            name = left[0].split("=")[0]
            if name.startswith("-") and name != "-":
                known = [o for o in self.options_known() if o.startswith("--")]
                self.error(f"no option {name}" + near(name, known, f"; see %agent {self.prog.split()[-1]} -h"))
            self.error(f"{left[0]!r} is one word too many; quote what belongs together")
        return options


class _Help(argparse.Action):
    def __call__(self, *_: Any, **__: Any) -> None:
        raise HelpAsked


def verb_named(name: str) -> Verb:
    """The verb of that name.

    Raises:
        BadLine: there is none (near matches in the message).
    """
    verbs = all_verbs()
    if name not in verbs:
        raise BadLine(f"no verb {name!r}" + near(name, verbs, "; see %agent help"))
    return verbs[name]


def dispatch(line: str, cell: str | None, namespace: Mapping[str, Any]) -> Any:
    """Do what a line says.

    Raises:
        UserError: a mistake in the line, or one that the verb found.
    """
    words = split(line)
    if words and words[0] in ("-h", "--help"):
        words[0] = "help"
    chosen = verb_named(words[0] if words else ("run" if cell else "where"))
    if cell is not None and not chosen.takes_cell:
        raise BadLine(f"%agent {chosen.name} takes no cell body: write it with one %")
    if not chosen.takes_text and (word := left_open(words)):
        raise BadLine(f"the quote in {word!r} is not closed: close it, or leave it away")
    parser = VerbParser(chosen)
    options_given, text = parser.before_text(line.strip()[len(chosen.name) :]) if chosen.takes_text else (words[1:], "")
    try:
        options = parser.read(options_given)
    except HelpAsked:
        from agentlab.notebook.views import HelpView

        return HelpView.of(chosen, parser)
    return chosen.action(Request(options, cell, namespace, current(), text))
