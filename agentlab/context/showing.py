"""What a block of scratch looks like as text: a result, whole or shortened, and what was concluded from lost rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentlab.context.sizes import RESULT_LIMIT
from agentlab.context.state import WHOLE
from agentlab.events import canonical

SUMMARY_LIMIT = 3_000
"""Characters that conclusions may have; of more, the oldest lines go."""
_LINE = 200


def result_text(payload: Mapping[str, Any], is_error: bool, seq: int, cap: int = WHOLE) -> str:
    """A tool's result or error as the model reads it; ``cap`` is how many characters of it, WHOLE for the usual limit."""
    if cap == 0:
        return f"({'an error' if is_error else 'a result'}, left out here; recall event {seq} to read it again)"
    if is_error:
        text = str(payload.get("message", "failed"))
        if payload.get("stderr"):
            text += "\nstderr:\n" + str(payload["stderr"])[-2000:]
    else:
        output = payload.get("output")
        text = output if isinstance(output, str) else canonical(output)
        if payload.get("stdout"):
            text += "\nstdout:\n" + str(payload["stdout"])[-4000:]
    return shortened(text, RESULT_LIMIT if cap == WHOLE else cap, seq) or "(no output)"


def shortened(text: str, limit: int, seq: int) -> str:
    """``text`` with its middle left out where it has more than ``limit`` characters (as JSON, escapes counted)."""
    if len(text) < limit // 6 or len(canonical(text)) - 2 <= limit:
        return text if text.strip() else ""
    half = limit // 2
    head, tail = _fitting(text[:half], half), _fitting(text[-half:][::-1], half)[::-1] if half else ""
    gone = len(text) - len(head) - len(tail)
    return f"{head}\n… {gone} characters left out; recall event {seq} for all …\n{tail}"


def _fitting(text: str, limit: int) -> str:
    """The longest beginning whose JSON has at most ``limit`` characters, or nearly."""
    while text and (length := len(canonical(text)) - 2) > limit:
        text = text[: min(len(text) - 1, len(text) * limit // length)]
    return text


# --- conclusions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """One finished call as a conclusion sees it: the round, the tool, its input and its result in short."""

    seq: int
    round: int
    tool: str
    input: str
    said: str
    failed: bool = False


def conclusions(earlier: str, outcomes: Iterable[Outcome], said: str = "") -> str:
    """What dropped rounds came to, by rule: a line for each call, equal calls of one tool joined. Bounded.

    ``earlier`` is what compactions before concluded, ``said`` a model's own summary of these rounds, which then stands
    for the lines.
    """
    lines = [line for line in earlier.split("\n") if line and not line.startswith("(")]
    lines += [line for line in said.split("\n") if line.strip()] if said else _lines(outcomes)
    kept: list[str] = []
    left = SUMMARY_LIMIT - 80
    for line in reversed(lines):
        line = line if len(line) <= 2 * _LINE else line[: 2 * _LINE - 1] + "…"
        if len(line) + 1 > left:
            kept.append("(what came before these lines is in the log: recall finds it)")
            break
        left -= len(line) + 1
        kept.append(line)
    return "\n".join(reversed(kept))


def _lines(outcomes: Iterable[Outcome]) -> list[str]:
    lines: list[str] = []
    counts: list[int] = []
    for o in outcomes:
        what = "failed: " if o.failed else ""
        line = f"{o.tool} {_short(o.input, 80)} → {what}{_short(o.said, _LINE)}"
        if lines and lines[-1] == line:
            counts[-1] += 1
            continue
        lines.append(line)
        counts.append(1)
    return [f"- {line}" + (f" ({count} times)" if count > 1 else "") for line, count in zip(lines, counts, strict=True)]


def _short(text: str, limit: int) -> str:
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
