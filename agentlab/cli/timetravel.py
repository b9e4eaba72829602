"""The command line's verbs for time travel: at, restore, fork, diff."""

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


def fork(options: argparse.Namespace) -> int:
    """``agentlab fork SESSION``"""
    from agentlab.lab import Lab

    with Lab(options.lab) as lab:
        parent = lab.session(options.session)
        made = parent.fork(
            options.at,
            model=options.model,
            policy=options.policy,
            label=options.label,
            session_id=options.id,
            trust=options.trust,
        )
        if options.json:
            print(json.dumps({"session": made.id, "parent": parent.id, "at": made.log.base.seq}))
        else:
            print(
                f"{made.id} shares events 1 to {made.log.base.seq} of {parent.id}; run it with: agentlab wake {made.id}"
            )
    return 0


def differ(options: argparse.Namespace) -> int:
    """``agentlab diff A B``: 0 when they do the same, 1 when they part."""
    from agentlab.lab import Lab
    from agentlab.lab.differing import diff

    lab = Lab(options.lab)
    found = diff(lab.session(options.session), lab.session(options.other))
    print(json.dumps(found.to_json(), ensure_ascii=False) if options.json else found)
    return 0 if found.same else 1


def add_verbs(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add them to the parser; ``verb`` makes a subparser, as in :func:`agentlab.cli.parser.build_parser`."""
    parser: Any = verb("at", at, "show a session as it was right after an event", session=True)
    parser.add_argument("seq", type=int, help="an event's number")
    parser = verb("restore", restore, "go back to a checkpoint by appending; nothing is erased", session=True)
    parser.add_argument("checkpoint", help="the number of its event, its id, its label, or newest")
    parser = verb("fork", fork, "a new session that shares the past of one up to an event", session=True)
    parser.add_argument("--at", type=int, metavar="SEQ", help="the last event to share (default: the newest)")
    parser.add_argument("--model", help="another model")
    parser.add_argument("--policy", help="another checkpoint policy, as every=5, steps=1, never")
    parser.add_argument("--label", default="", help="a name for people")
    parser.add_argument("--id", help="the id of the new session")
    parser.add_argument("--trust", action="store_true", help="run what another owner defined")
    parser = verb("diff", differ, "where two sessions part: event, calls, cost, outcome", session=True)
    parser.add_argument("other", help="another session's id")
