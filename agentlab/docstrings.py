"""What a docstring says: the description, and a text for each parameter (Google's, NumPy's or Sphinx's style)."""

from __future__ import annotations

import inspect
import re

_PARAMETERS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
_OTHERS = frozenset(
    {"returns", "return", "yields", "yield", "raises", "warns", "example", "examples", "note", "notes", "see also", "references",
     "attributes", "warnings"}
)  # fmt: skip
_SPHINX = re.compile(r":(param|parameter|arg|argument|key|type|returns?|rtype|raises?|yields?)\b\s*([^:]*):\s*(.*)")
_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\w+)*)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")


def description(doc: str | None) -> str:
    """The text before the first section, its paragraphs each on one line."""
    lines = inspect.cleandoc(doc or "").splitlines()
    text: list[str] = []
    for index, line in enumerate(lines):
        if _heading(lines, index) or _SPHINX.match(line):
            break
        text.append(line)
    return "\n\n".join(" ".join(p.split()) for p in re.split(r"\n\s*\n", "\n".join(text)) if p.strip())


def parameter_texts(doc: str | None) -> dict[str, str]:
    """What is said of each parameter; those of which nothing is said are left out."""
    lines = inspect.cleandoc(doc or "").splitlines()
    found: dict[str, list[str]] = {}
    names: list[str] = []  # whom the current line is about
    inside, numpy, indent = False, False, 0
    for index, line in enumerate(lines):
        heading = _heading(lines, index)
        sphinx = _SPHINX.match(line)
        if heading is not None:
            inside, numpy, indent, names = heading in _PARAMETERS, not line.rstrip().endswith(":"), -1, []
        elif sphinx is not None:
            about = sphinx[1] in ("param", "parameter", "arg", "argument", "key")
            inside, names = False, sphinx[2].split()[-1:] if about else []
            _add(found, names, sphinx[3])
        elif not line.strip():
            continue
        elif inside and not _is_rule(line):
            here = len(line) - len(line.lstrip())
            indent = here if indent < 0 else indent
            entry = (_NUMPY_ENTRY if numpy else _ENTRY).match(line.strip()) if here == indent else None
            if entry is None:
                _add(found, names, line)
            else:
                names = [name.strip().lstrip("*") for name in entry[1].split(",")]
                _add(found, names, "" if numpy else entry[2] or "")
        elif line.startswith((" ", "\t")):  # goes on with a :param:
            _add(found, names, line)
        else:
            names = []
    texts = {name: " ".join(" ".join(pieces).split()) for name, pieces in found.items()}
    return {name: text for name, text in texts.items() if text}


def _add(found: dict[str, list[str]], names: list[str], text: str) -> None:
    for name in names:
        found.setdefault(name, []).append(text)


def _heading(lines: list[str], index: int) -> str | None:
    """The section that begins here, in lower case: ``Args:``, or ``Parameters`` over a line of dashes."""
    line = lines[index].rstrip()
    underlined = index + 1 < len(lines) and _is_rule(lines[index + 1])
    word = line.removesuffix(":").lower()
    return word if (underlined or line.endswith(":")) and word in _PARAMETERS | _OTHERS else None


def _is_rule(line: str) -> bool:
    return len(line.strip()) >= 3 and set(line.strip()) <= {"-", "="}
