"""The command line's verbs for people: effects and what is in doubt, answers, checkpoints, context and guard to read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any


def effects(options: argparse.Namespace) -> int:
    """``agentlab effects SESSION``: 1 when some are in doubt, else 0."""
    from agentlab.lab import Lab
    from agentlab.lab.registry import in_doubt

    session = Lab(options.lab).session(options.session)
    found = session.effects()
    doubtful = in_doubt(found)
    shown = doubtful if options.doubt else found
    if options.json:
        _print([effect.to_json() for effect in shown])
    elif not shown:
        print(f"{session.id}: no effects" + (" in doubt" if options.doubt else ""))
    for effect in shown if not options.json else ():
        print(
            f"{effect.tool:<20} {effect.state:<10} tries {effect.tries}  event {effect.seq}  {effect.key}  {effect.evidence}"
        )
    if doubtful and not options.json:
        print(f"decide with: agentlab settle {session.id} KEY done|retry|skip --lab {options.lab}")
    return 1 if doubtful else 0


def settle(options: argparse.Namespace) -> int:
    """``agentlab settle SESSION KEY done|retry|skip``"""
    return _answered(
        options, lambda session: session.settle(options.key, options.decision), f"settled: {options.decision}"
    )


def reply(options: argparse.Namespace) -> int:
    """``agentlab reply SESSION TEXT``"""
    return _answered(options, lambda session: session.reply(" ".join(options.text)), "answered")


def approve(options: argparse.Namespace) -> int:
    """``agentlab approve SESSION``"""
    return _answered(options, lambda session: session.approve(" ".join(options.note)), "approved")


def deny(options: argparse.Namespace) -> int:
    """``agentlab deny SESSION``"""
    return _answered(options, lambda session: session.deny(" ".join(options.note)), "denied")


def checkpoints(options: argparse.Namespace) -> int:
    """``agentlab checkpoints SESSION``: the list, or one of them whole as JSON."""
    from agentlab.lab import Lab

    session = Lab(options.lab).session(options.session)
    if options.checkpoint is not None:
        print(json.dumps(session.checkpoint_json(options.checkpoint), ensure_ascii=False, indent=2))
        return 0
    found = session.checkpoints()
    if options.json:
        _print([checkpoint.to_json() for checkpoint in found])
    for c in found if not options.json else ():
        print(
            f"{c.seq:>6}  stands for {c.cursor:<6} {c.reason}{'  ' + c.label if c.label else ''}  {c.size_bytes} bytes"
        )
    return 0


def context(options: argparse.Namespace) -> int:
    """``agentlab context SESSION``"""
    return _reported(options, lambda session: session.context())


def guard(options: argparse.Namespace) -> int:
    """``agentlab guard SESSION``"""
    return _reported(options, lambda session: session.guard())


def _reported(options: argparse.Namespace, ask: Callable[[Any], Any]) -> int:
    from agentlab.lab import Lab

    report = ask(Lab(options.lab).session(options.session))
    if options.json:
        _print(report.to_json())
    else:
        print(report)
    return 0


def _answered(options: argparse.Namespace, act: Callable[[Any], None], sentence: str) -> int:
    from agentlab.cli.actions import follow
    from agentlab.lab import Lab

    with Lab(options.lab) as lab:
        session = lab.session(options.session)
        act(session)
        if options.wake:
            session.wake(background=True)
            return follow(session, options.json)
        if options.json:
            _print({"session": session.id, "said": sentence})
        else:
            print(f"{session.id}: {sentence}; go on with: agentlab wake {session.id} --lab {options.lab}")
    return 0


def _print(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False))


def add_verbs(verb: Callable[..., argparse.ArgumentParser]) -> None:
    """Add them to the parser; ``verb`` makes a subparser, as in :func:`agentlab.cli.parser.build_parser`."""
    parser: Any = verb("effects", effects, "what was done outside, with its key and state", session=True)
    parser.add_argument("--doubt", action="store_true", help="only those in doubt")
    parser = verb("settle", settle, "decide on an effect in doubt", session=True)
    parser.add_argument("key", help="the key of the effect in doubt")
    parser.add_argument(
        "decision", choices=("done", "retry", "skip"), help="it happened; do it again; go on without it"
    )
    _wakes(parser)
    parser = verb("reply", reply, "answer the open question", session=True)
    parser.add_argument("text", nargs="+", help="the answer")
    _wakes(parser)
    for name, action, what in (("approve", approve, "approve what is asked"), ("deny", deny, "deny what is asked")):
        parser = verb(name, action, what, session=True)
        parser.add_argument("note", nargs="*", help="a remark for readers of the log")
        _wakes(parser)
    parser = verb("checkpoints", checkpoints, "list a session's checkpoints, or show one whole", session=True)
    parser.add_argument("checkpoint", nargs="?", help="an event number, an id, a label or newest")
    verb("context", context, "what the model sees next by layers, what was dropped, what is pinned", session=True)
    verb("guard", guard, "what repeats, with the calls that prove it", session=True)


def _wakes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wake", action="store_true", help="go on at once")
