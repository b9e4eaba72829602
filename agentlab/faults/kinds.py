"""The vocabulary of faults: who can fail, and how. One table for words, help, completion and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TARGETS = ("harness", "sandbox", "sandbox-process")
"""Processes that can die or stop."""
SERVICES = ("model", "tool", "disk", "clock")
"""What can misbehave while everybody lives."""
ACTIONS = ("kill", "stop", "int", "term", "second")
"""What can be done to a process: SIGKILL, SIGSTOP, SIGINT, SIGTERM; ``second`` wakes another harness on its session,
which works on while this one tries to."""
PLACES = ("event.append", "blob.put", "checkpoint.pointer")
"""What a disk fault can hit; a kind of event means the commit that holds one."""
PROCESSES = ("poisson", "weibull", "bursty")
"""Random processes of deaths, as in ``harness@poisson=60s``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to misbehave. ``value`` is its number where none is given, ``unit`` what that number means."""

    meaning: str
    value: float = 0.0
    unit: str = ""


KINDS: Mapping[str, Mapping[str, Kind]] = {
    "model": {
        "429": Kind("rate limited, with Retry-After", 0.2, "seconds to wait"),
        "500": Kind("an error of the server"),
        "529": Kind("overloaded"),
        "timeout": Kind("silent until the time limit is over", 0.5, "seconds"),
        "cut": Kind("the stream breaks off after so many bytes", 200, "bytes"),
        "malformed": Kind("a tool call whose input stops in the middle"),
        "unknown_tool": Kind("a call of a tool that was never offered"),
        "refusal": Kind("the model refuses"),
        "empty": Kind("an answer without content"),
    },
    "tool": {
        "exception": Kind("raises before it does anything"),
        "http500": Kind("a service that it asks answers 500"),
        "timeout": Kind("hangs until it is killed; nothing is done", 1.0, "seconds"),
        "slow": Kind("takes so much longer, then does its work", 1.0, "seconds"),
        "corrupt": Kind("does its work and gives a damaged result"),
        "empty": Kind("does its work and gives nothing"),
        "lost_reply": Kind("does its work; the reply is lost, its process dies"),
        "false_failure": Kind("does its work and says that it failed"),
    },
    "disk": {
        "full": Kind("no space left (ENOSPC), the file is left torn"),
        "eio": Kind("fsync reports an I/O error (EIO)"),
        "emfile": Kind("too many open files (EMFILE)"),
        "readonly": Kind("the file system is read-only (EROFS)"),
        "slow": Kind("fsync takes so much longer", 1.0, "seconds"),
    },
    "clock": {
        "back": Kind("the wall clock jumps back", 3600, "seconds"),
        "forward": Kind("the wall clock jumps forward", 3600, "seconds"),
    },
}
"""Services, and the kinds of each."""
