"""The options of ``agentlab explore``; light, because every start of the command line reads them."""

from __future__ import annotations

import argparse


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    verb.add_argument("task", help="the name of a task, or package.module[:NAME]")
    verb.add_argument("--single", action="store_true", help="single deaths only, no pairs")
    verb.add_argument("--seconds", type=float, default=0.0, help="then random schedules for so long")
    verb.add_argument("--seed", type=int, default=0, help="the seed of the random schedules")
    verb.add_argument(
        "--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="stop early after so long"
    )
    verb.add_argument("--no-merge", action="store_true", help="run every state to its end, equal ones too")
    verb.add_argument("--keep", default="schedules", metavar="FOLDER", help="where schedules that fail are kept")
    verb.add_argument("--replay", metavar="FILE", help="run one kept schedule instead")
    verb.add_argument("--drill", action="store_true", help="the zombie drill instead")
    verb.add_argument("--dial", action="store_true", help="what each durability setting loses instead")
