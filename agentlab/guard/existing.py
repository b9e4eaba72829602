"""The rules of four existing agents, restated as functions for comparison. Thresholds are those of their sources.

Each returns findings in our form: *nudge* where the agent only speaks to its model, *stop* where the run halts.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence

from agentlab.events import canonical
from agentlab.guard.action import Action
from agentlab.guard.state import Finding


def _finding(rule: str, action: str, seen: Sequence[Action]) -> Finding:
    return Finding(rule, "nudge" if action == "nudge" else "stop", tuple(a.seq for a in seen), rule)


def openhands(actions: Sequence[Action]) -> list[Finding]:
    """OpenHands SDK: 4 equal pairs of action and observation; 3 equal actions with errors nudge, a 4th stops; two
    alternating pairs over 6. The model's thought is part of the action; 20 events (10 pairs) are looked at."""
    found: list[Finding] = []
    acts = [(a.tool, canonical(a.input), a.thought) for a in actions]
    results = [(a.outcome, a.result_text, a.error_text) for a in actions]
    for i in range(len(actions)):
        low = max(0, i - 9)
        act, res = acts[low : i + 1], results[low : i + 1]
        failed = [a.outcome == "error" for a in actions[low : i + 1]]
        if len(act) >= 4 and len(set(act[-4:])) == 1 and (len(set(res[-4:])) == 1 or all(failed[-4:])):
            found.append(_finding("same pair", "stop", actions[i - 3 : i + 1]))
        elif len(act) >= 3 and len(set(act[-3:])) == 1 and all(failed[-3:]):
            found.append(_finding("same failing action", "nudge", actions[i - 2 : i + 1]))
        pairs = list(zip(act, res, strict=True))[-6:]
        if len(pairs) == 6 and all(pairs[k] == pairs[k + 2] for k in range(4)) and pairs[0] != pairs[1]:
            found.append(_finding("alternating", "stop", actions[i - 5 : i + 1]))
    return found


def gemini_cli(actions: Sequence[Action]) -> list[Finding]:
    """Gemini CLI, tool rule: a cycle of 1 to 5 calls, five times, within 25; the arguments' key order counts, results
    do not. The first detection speaks to the model, the second stops. Its rules on text and its judge are left out."""
    keys = [hashlib.sha256(f"{a.tool}:{json.dumps(a.input)}".encode()).hexdigest() for a in actions]
    found: list[Finding] = []
    for i in range(len(keys)):
        recent = keys[max(0, i - 24) : i + 1]
        for period in range(1, 6):
            tail = recent[-5 * period :]
            if len(tail) == 5 * period and tail == tail[:period] * 5:
                found.append(_finding("cycle", "stop" if found else "nudge", actions[i - 5 * period + 1 : i + 1]))
                break
    return found


def cline(actions: Sequence[Action]) -> list[Finding]:
    """Cline SDK: name and sorted arguments, soft at exactly 3 in a row, hard at 5; so are 6 failing turns in a row."""
    found: list[Finding] = []
    run = failures = 0
    previous = ""
    for i, action in enumerate(actions):
        key = action.tool + json.dumps(action.input, sort_keys=True)
        run = run + 1 if key == previous else 1
        previous = key
        failures = failures + 1 if action.outcome == "error" else 0
        if run == 3:
            found.append(_finding("same call", "nudge", actions[i - 2 : i + 1]))
        elif run >= 5:
            found.append(_finding("same call", "stop", actions[i - run + 1 : i + 1]))
        if failures >= 6:
            found.append(_finding("mistakes", "stop", actions[i - 5 : i + 1]))
    return found


def crush(actions: Sequence[Action]) -> list[Finding]:
    """Crush: any hash of tool, input and output more than 5 times among the last 10 steps; no nudge."""
    found: list[Finding] = []
    keys = [(a.tool, json.dumps(a.input, sort_keys=True), a.result_text, a.error_text) for a in actions]
    for i in range(9, len(keys)):
        key, times = Counter(keys[i - 9 : i + 1]).most_common(1)[0]
        if times > 5:
            found.append(
                _finding(
                    "signature",
                    "stop",
                    [a for a, k in zip(actions[i - 9 : i + 1], keys[i - 9 : i + 1], strict=True) if k == key],
                )
            )
    return found


EXISTING = {"OpenHands SDK": openhands, "Gemini CLI": gemini_cli, "Cline": cline, "Crush": crush}
"""The restated detectors by the name of their agent."""
