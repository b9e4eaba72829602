"""Equal things look equal: input hashes, results without their noise, classes of error.

Noise is what two runs of one call differ in although nothing happened: clock times, durations, process ids,
addresses, uuids, temporary names, ports, and the line numbers of a message. Digits that are the substance stay:
percentages, counts, page numbers, and line numbers that count up as the lines of a listing do.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Collection, Iterable, Sequence

from agentlab.events import Json, canonical

VOLATILE = (
    "thought", "thoughts", "thinking", "description", "reason", "reasoning", "explanation", "justification",
    "rationale", "security_risk", "purpose", "intent", "intention", "why", "motivation", "commentary", "hypothesis",
    "reflection", "thought_process", "chain_of_thought",
)  # fmt: skip
"""Arguments that hold the model's own words about a call."""

_EDGE = 600
# Every pattern begins with a consumed character of a small set and looks back from there: the engine then skips over
# all other text, which makes the difference between 30 and 400 µs on a page. All of them expect lower case.
_NOISE = re.compile(
    r"""\d(?<!\d\d)(?:
    \d{3}-\d\d-\d\d[t\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\ ?(?:z|utc|[+-]\d\d:?\d\d))?
    |(?<![\w:.]\d)\d?:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\ ?[ap]m\b)?(?![\w:])
    |(?<=0)x[0-9a-f]+
    |(?<=1)[4-9]\d{8}(?:\d{3}|\d{6})?(?:\.\d+)?\b
    |(?<!\w\d)\d*(?:\.\d+)?\ ?(?:ms|us|µs|ns|s|secs?|seconds?|mins?|minutes?|hrs?|hours?|milliseconds?)\b
    |(?<!\w\d)\d*(?:h\ ?\d+)?m\ ?\d+(?:\.\d+)?s\b
    |(?<=\w\[\d)\d{0,6}(?=\][:\s])
    |(?:(?<=\.\w:\d)|(?<=\.\w\w:\d)|(?<=\.\w\w\w:\d)|(?<=host:\d))\d*(?::\d+)?\b
    |(?<=(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[ ]\d)\d?\b
    )""",
    re.VERBOSE,
)
_HEX = re.compile(
    r"[0-9a-f](?<!\w.)(?:[0-9a-f]{7}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{7,63})(?!\w)"
)
_TEMP = re.compile(r"/(?:tmp|var/folders)/[\w./-]+")
_TEMP_NAME = re.compile(r"(?<=/)tmp[\w.-]{4,}|\d+")
_NAMED = re.compile(
    r"""(?:p(?:id|pid|rocess(?:[ _]id)?|ort)|t(?:id|hread|ry|race[_-]?id)|re(?:quest|q)[ _-]?id|correlation[_-]?id
        |span[_-]?id|attempt|retry|col(?:umn)?|char)(?<![a-z_]pid)(?<![a-z_]port)(?<![a-z_]tid)(?<![a-z_]try)
        ["']?\s*[\#:=(]?\s*["']?\d[\w-]*""",
    re.VERBOSE,
)
_TIMED = re.compile(
    r"""(?:[dnelu_](?:ate|ow|lapsed|ptime|atency|at|ms)|t(?:ime(?:stamp)?|s|ook)|duration)(?:["']?\s*[:=]\s*|\s+(?=\d))
        (?:"[^"]*"|[\d.e+-]+)""",
    re.VERBOSE,
)
_NAMED_HINTS = ("pid", "process", "port", "tid", "thread", "try", "id", "attempt", "col", "char")
_TIMED_HINTS = ("time", "ts", "took", "duration", "elapsed", "latency", "date", "now", "_at", "_ms")
_LINES = re.compile(
    r"[lr](?<!\w.)(?:(?<=l)(?:ine(?:s|[ _]?no|[ _]?number)?|n)?|ow)[\"']?[ #:=]*(\d+)\b|\n[ \t]*(\d+)(?=[:|\t→])"
)
_RANGE = re.compile(r"[lr](?<!\w.)(?:ines?|n|ows?)[ #:=]*\d+ ?(?:-|–|to|\.\.|/|of) ?\d")
_DIGIT = re.compile(r"\d")


def short_hash(text: str) -> str:
    """Twelve hexadecimal digits that stand for ``text`` within one window."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def reduced_input(value: Json, volatile: Collection[str] = VOLATILE) -> Json:
    """``value`` without volatile arguments; unchanged when nothing else would be left (a tool for thinking aloud)."""
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if k.lower() not in volatile}
    return kept or value


def call_key(tool: str, value: Json, volatile: Collection[str] = VOLATILE) -> str:
    """What identifies a call: the tool and its canonical input, whatever the order of keys or the model's words."""
    return short_hash(tool + "\0" + canonical(reduced_input(value, volatile)))


def plain_result(text: str) -> str:
    """``text`` in lower case without noise; of a long text the edges exactly and the middle without its digits.

    The middle is shortened to a checksum, which bounds the cost.
    """
    text = text.strip()
    if len(text) <= 2 * _EDGE:
        return _quiet(text)
    middle = text[_EDGE:-_EDGE].encode("utf-8", "surrogatepass").translate(None, b"0123456789")
    return f"{_quiet(text[:_EDGE])}\0{zlib.crc32(middle):x}.{len(middle)}\0{_quiet(text[-_EDGE:])}"


def _quiet(text: str) -> str:
    text = text.lower().replace("  ", " ")  # padding follows the width of numbers
    if not _DIGIT.search(text):
        return text
    if "/tmp/" in text or "/var/folders/" in text:
        text = _TEMP.sub(lambda m: _TEMP_NAME.sub("#", m.group()), text)
    text = _HEX.sub(_unless_plain, _NOISE.sub("#", text))
    if any(hint in text for hint in _NAMED_HINTS):
        text = _NAMED.sub("#", text)
    if any(hint in text for hint in _TIMED_HINTS):
        text = _TIMED.sub("#", text)
    text = "\n" + text
    if _LINES.search(text) and not _is_listing(text):
        text = _LINES.sub("\n#", text)
    return text[1:]


def _unless_plain(match: re.Match[str]) -> str:
    # A run of digits alone is a number, and one of letters alone is a word.
    found = match.group()
    return found if found.isdigit() or found.isalpha() else "#"


_ADVANCES = re.compile(
    r"process|read|reached|scan|import|load|pars|index|cop[iy]|writ|progress|item|step|batch|page|chunk|record|done|download"
)
_COMPLAINS = re.compile(
    r"error|fail|exception|refus|denied|invalid|missing|cannot|warn|traceback|not found|unknown|abort"
)
_TICK = re.compile(r"[lr](?<!\w.)(?:ine|n|ow)[ #:=]*(\d+)\b|\[(?<=\w.)(\d{1,7})\](?=[:\s])")


def tick(text: str) -> tuple[int, bool]:
    """The first number that was taken for noise and might be a counter (-1: none), and whether it counts lines.

    One result can not tell the line of a message from the line that a job has reached; a row of results can, and
    what complains is no report of progress.
    """
    text = text[:_EDGE].lower()
    found = _TICK.search(text)
    if not found or _COMPLAINS.search(text) or not _ADVANCES.search(text):
        return -1, False
    return int(found.group(1) or found.group(2)), found.group(1) is not None


def counts_up(ticks: Sequence[tuple[int, bool]]) -> bool:
    """Whether numbers in the order of their results advance as work does: line numbers always upwards, others by one
    and the same step."""
    steps = [b[0] - a[0] for a, b in zip(ticks, ticks[1:], strict=False)]
    if len(steps) < 2 or any(t[0] < 0 for t in ticks) or min(steps) <= 0:
        return False
    return all(t[1] for t in ticks) or len(set(steps)) == 1


def _is_listing(text: str) -> bool:
    # A page of a file counts its lines up one by one, or names its range; a message names a few lines anyhow.
    if _RANGE.search(text):
        return True
    numbers = [int(a or b) for a, b in _LINES.findall(text)]
    steps = sum(b - a == 1 for a, b in zip(numbers, numbers[1:], strict=False))
    return steps >= 2 and steps * 2 >= len(numbers) - 1


_PATHLIKE = re.compile(r"[\w.@~+-]*[/\\][^\s'\"`,;:)]*|\b[\w-]+\.\w{1,6}\b")
_QUOTED = re.compile(r"'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`|‘[^’\n]{1,200}’")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_GENERIC = re.compile(
    r"\s*(?:traceback \(most recent|exit(?:ed)?(?: with)?(?: status| code)?\b|command (?:failed|exited)|error:?\s*$|"
    r"process exited|=+|-{3,}|wall time|output:?\s*$|stderr:?\s*$|stdout:?\s*$|during handling|file \"|</?\w+>\s*$|"
    r"<returncode>|chunk id|original token|\[|\^|~)",
    re.IGNORECASE,
)
_VAGUE_TYPE = re.compile(r"exit|nonzero|command|tool|^error$|unknown|failed|process", re.IGNORECASE)
_RAISED = re.compile(r"^\s*(?:E\s+)?[\w.]*(?:Error|Exception|SystemExit|Interrupt|Failure)\b.*", re.MULTILINE)


def error_class(error_type: str | None, message: str, echoes: Iterable[str] = ()) -> str:
    """Type and first telling line of an error, without what changes with the arguments; empty if nothing is told.

    ``echoes`` are texts of the input, in lower case, that the message may repeat. Lines that say only *that* something
    failed are passed over; the line of a traceback that names the exception is preferred.
    """
    raised = _RAISED.findall(message[-2000:])
    line = raised[-1] if raised else ""
    if not line:
        line = next((x for x in message[:1500].splitlines() if x.strip() and not _GENERIC.match(x)), "")
    line = without_echoes(line[:300].strip().lower(), echoes)
    line = _NUMBER.sub("#", _PATHLIKE.sub("#", _QUOTED.sub("#", _quiet(line))))
    if not line and (not error_type or _VAGUE_TYPE.search(error_type)):
        return ""
    return short_hash(f"{error_type or ''}|{line}")


def without_echoes(text: str, echoes: Iterable[str]) -> str:
    """``text`` with every echo of the input replaced, longest first; a number only where it stands as a whole one.

    The total 1011 on page 11 is no echo of the page.
    """
    for echo in sorted(echoes, key=len, reverse=True):
        if not echo.isdecimal():
            text = text.replace(echo, "<in>")
        elif echo in text:
            text = re.sub(rf"(?<!\d){echo}(?!\d)", "<in>", text)
    return text
