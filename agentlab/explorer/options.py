"""The options of ``agentlab explore``; light, because every start of the command line reads them."""

from __future__ import annotations

import argparse


def seconds(text: str) -> float:
    """A time as ``60s``, ``60`` or ``2m``, in seconds.

    Raises:
        argparse.ArgumentTypeError: something else.
    """
    factor = {"s": 1.0, "m": 60.0}.get(text[-1:], 0.0)
    try:
        found = float(text[:-1]) * factor if factor else float(text)
    except ValueError:
        found = float("nan")
    if not found >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 60, 60s or 2m")
    return found


def number(text: str) -> int:
    """How many, at least one.

    Raises:
        ValueError: something else.
    """
    if int(text) < 1:
        raise ValueError(f"{text!r} is not at least 1")
    return int(text)


def strikes(text: str) -> str:
    """A schedule in words, not empty: nothing at all would be an exploration of everything.

    Raises:
        ValueError: it is empty.
    """
    if not text.strip():
        raise ValueError("an empty schedule")
    return text


def add_arguments(verb: argparse.ArgumentParser, *, pairs: bool = True) -> None:
    """The options of the verb; ``pairs`` says whether pairs of deaths are explored unless told otherwise."""
    verb.add_argument("task", help="the name of a task, or package.module[:NAME]")
    chosen = verb.add_mutually_exclusive_group()
    chosen.add_argument("--single", dest="pairs", action="store_false", help="single deaths only, no pairs")
    chosen.add_argument(
        "--pairs", dest="pairs", action="store_true", help="a second death at every point after the first"
    )
    verb.set_defaults(pairs=pairs)
    verb.add_argument(
        "--budget",
        type=seconds,
        metavar="TIME",
        help="so long in all (60s, 2m); what is left after every schedule goes to random ones",
    )
    mode = verb.add_mutually_exclusive_group()
    mode.add_argument(
        "--real", action="store_true", help="child processes and SIGKILL instead, compared with the simulation"
    )
    verb.add_argument("--count", type=number, default=40, metavar="N", help="with --real: how many schedules")
    verb.add_argument(
        "--faults",
        action="store_true",
        help="also let the model, each tool, the disk and the clock misbehave in every way at every call, one at a time, and"
        " wake a second harness beside the first at every point",
    )
    verb.add_argument(
        "--seconds",
        type=seconds,
        default=0.0,
        help="then for so long random schedules of deaths and of misbehaving services",
    )
    verb.add_argument("--seed", type=int, default=0, help="the seed of the random schedules")
    verb.add_argument(
        "--time-limit", type=seconds, default=float("inf"), metavar="SECONDS", help="stop early after so long"
    )
    verb.add_argument("--no-merge", action="store_true", help="run every state to its end, equal ones too")
    verb.add_argument("--keep", default="schedules", metavar="FOLDER", help="where schedules that fail are kept")
    mode.add_argument(
        "--schedule",
        type=strikes,
        metavar="STRIKES",
        help="run one schedule in words instead: power@log.link#3,harness@wake:after",
    )
    mode.add_argument("--replay", metavar="FILE", help="run one kept schedule instead")
    mode.add_argument(
        "--zombie",
        "--drill",
        action="store_true",
        help="stop a harness at every point, replace it, continue it: instead",
    )
    mode.add_argument("--replayed", action="store_true", help="forget everything after every single command instead")
    mode.add_argument("--dial", action="store_true", help="what each durability setting loses instead")
