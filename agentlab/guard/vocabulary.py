"""Words by which the guard tells a change from a look, a wait from a stall, and a passing failure from a lasting one.

All of it is a prior, never a verdict: a word only decides how much patience a repetition gets.
"""

from __future__ import annotations

import re

KNOBS = frozenset(
    """timeout timeout_ms timeout_s wait wait_ms limit max max_results max_tokens max_output_tokens maxresults top_k
    topk k n num count size page_size per_page pagesize context depth width height retries retry delay yield_time_ms
    head_limit verbose x y top left lat lon zoom temperature threshold tolerance confidence precision""".split()
)
"""Arguments that say how to look, not what to look at: changing only these asks the same question again."""

CHANGING = frozenset(
    """edit write create insert replace patch apply update delete remove rm move mv rename copy cp save commit put post
    upload install set add append modify send merge push format submit mkdir touch tee chmod undo revert reset
    checkout restore stash rebase write_file editor store publish fix""".split()
)
"""Words of a tool's or command's name after which the world is not the one before."""

MOVING = frozenset("scroll next previous prev pagedown pageup swipe key keypress press tap back drag".split())
"""Tools that move through something; their answer is often a mere acknowledgement while the news is on a screen."""
ACKNOWLEDGED = re.compile(
    r"\W*(?:(?:ok|done|true|null|none|scroll|press|mov|swip|sent|key|action|success|tapp|dragg)[^\n]{0,50})?$"
)
"""What a tool says that has nothing to say, in lower case."""

MUSING = frozenset("think thinking thought note notes todo todos plan remember reflect scratchpad".split())
"""Tools that only write down the model's own words: no change that could make a repeated call answer differently."""

SEEKING = frozenset("search find grep rg ls list query lookup select filter glob match locate ag ack".split())
"""Tools for which an empty answer means *nothing found* rather than *all well*."""
LOOKING = SEEKING | frozenset("read get fetch look cat view show open scan".split())
"""Tools that only look."""

WAITING_TOOLS = frozenset("wait sleep await pause idle delay".split())
POLLING = frozenset(
    """status progress job jobs task state poll check watch monitor build deploy deployment queue health run ci
    pipeline output wait""".split()
)

FRUITLESS = re.compile(
    r"""\s*(?:[\[{(]\s*[\])}]|null\b|none\b|nil\b|n/a\b|\(empty\)|empty\b|nothing\b
    |(?:sorry,?\s+)?(?:there\s+(?:is|are|were)\s+)?no\s+(?:\w+\s+){0,3}(?:results?|match(?:es)?|files?|entries|entry|data|records?
        |rows?|hits?|items?|documents?|pages?|output|such|found|occurrences?|references?)\b
    |not\s+found\b|0\s+(?:results?|match(?:es)?|rows?|hits?|items?|records?|documents?|files?)\b
    |(?:could|did)\s+not\s+find|found\s+(?:0|no)\b
    |\{[^{}]{0,80}"(?:results|items|data|matches|hits|rows|records|entries|documents)"\s*:\s*\[\s*\])""",
    re.IGNORECASE | re.VERBOSE,
)

FAILED_TEXT = re.compile(
    r"\s*(?:<[^>]{1,30}>\s*)*(?:error|exception|traceback|fatal|failed|failure|invalid|usage:|denied|"
    r"\w+(?:error|exception)\b|[\w./-]+: (?:command )?not found|[\w./-]+: .{0,80}: no such file|"
    r"(?:[\w']+ ){0,4}(?:has introduced|was rejected|not applied|could not|cannot|can't|unable to|no replacement))",
    re.IGNORECASE,
)

TRANSIENT = re.compile(
    r"time[ -]?d?[ -]?out|deadline exceeded|(?:^|http|status|code|error|returned|:)\W{0,3}(?:429|50[234])\b|"
    r"\b(?:429|50[234]) [a-z]|rate.?limit|too many requests|(?:service|temporarily) unavailable|overloaded|"
    r"connection (?:was )?(?:reset|aborted|closed)|ECONNRESET|ETIMEDOUT|EAGAIN|try again (?:later|in\b)|"
    r"retry (?:later|after)|resource busy|is locked|lock (?:held|wait)|network is unreachable|\bbusy\b",
    re.IGNORECASE,
)

_NOT_YET = r"(?:done|finished|completed?|ready|success(?:ful)?|available)"
PENDING = re.compile(
    rf"\b(?:running|pending|queued|enqueued|in[_ -]?(?:progress|queue|flight)|wait(?:ing|s)|starting|initiali[sz]ing|"
    rf"provisioning|building|compiling|deploying|processing|scheduled|booting|warming|creating|executing|syncing|"
    rf"uploading|downloading|installing|preparing|launching|propagating|ongoing|underway|unfinished|busy|"
    rf"not[_ -](?:yet|{_NOT_YET})|{_NOT_YET}\W{{1,4}}(?:false|no|0)\b|no(?:t|thing)? (?:\w+ )?yet|please wait|"
    rf"try again|eta\b|remaining|no new output|still\b|incomplete|rolling out)",
    re.IGNORECASE,
)
SETTLED = re.compile(
    rf"\b(?:fail(?:ed|ure|ing)?|errors?|exception|denied|{_NOT_YET}|succeeded|passed|cancell?ed|aborted|exited|"
    rf"terminated|crashed|stopped|killed|not found|no such|invalid|ok)\b",
    re.IGNORECASE,
)
HARMLESS = re.compile(
    rf"\b(?:0|no) (?:errors?|fail(?:ed|ures?))\b|"
    rf"\"?\w*(?:error|fail)\w*\"?\s*[:=]\s*(?:null|none|0|false|\[\]|\"\"|\{{\}})|"
    rf"not[_ -](?:yet[_ -])?{_NOT_YET}|{_NOT_YET}\"?\s*[:=]\s*(?:false|no\b|0\b|null|none)|"
    rf"\d+\s*(?:/|of)\s*\d+ {_NOT_YET}",
    re.IGNORECASE,
)
"""What looks settled and is not: *0 failed*, ``"error": null``, *not done*, *2 of 5 finished*."""

PARTIAL = re.compile(r"(?<![\d.])\d{1,2}(?:\.\d+)?\s?%|\b\d+\s*(?:/|of)\s*\d+\b")
"""A share of a whole that is not 100 %."""


def words(name: str) -> list[str]:
    """A name split at underscores, dots, dashes and humps: ``readFile`` and ``fs.read_file`` share *read*."""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def pending(text: str) -> bool:
    """Whether a short result says that something is still under way.

    The last line tells (what was *running* two lines above may have ended since), but for data in brackets.
    """
    text = text.strip()
    if not text or len(text) > 400:
        return False
    telling = text if text[0] in "{[<" and text[-1] in "}]>" else text[text.rfind("\n") + 1 :]
    return bool(PENDING.search(telling)) and not SETTLED.search(HARMLESS.sub(" ", text))
