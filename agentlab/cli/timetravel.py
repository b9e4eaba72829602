"""The command line's verbs that go back in time: at and restore."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any


def at(options: argparse.Namespace) -> int:
    """``agentlab at SESSION SEQ``"""
    from agentlab.lab import Lab

    found = Lab(options.lab).session(options.session).at(options.seq)
    print(json.dumps(found.to_json(), ensure_ascii=False) if options.json else found)
    return 0


def restore(options: argparse.Namespace) -> int:
    """``agentlab restore SESSION CHECKPOINT``"""
    from agentlab.lab import Lab

    with Lab(options.lab) as lab:
        session = lab.session(options.session)
        there = session.restore(options.checkpoint)
        if options.json:
            print(json.dumps({"session": session.id, "checkpoint_seq": there.seq}))
        else:
            print(
                f"{session.id} goes back to the checkpoint at event {there.seq} with its next wake; nothing is erased"
            )
    return 0


def add_verbs(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add them to the parser; ``verb`` makes a subparser, as in :func:`agentlab.cli.parser.build_parser`."""
    parser: Any = verb("at", at, "show a session as it was right after an event", session=True)
    parser.add_argument("seq", type=int, help="an event's number")
    parser = verb("restore", restore, "go back to a checkpoint by appending; nothing is erased", session=True)
    parser.add_argument("checkpoint", help="the number of its event, its id, its label, or newest")
