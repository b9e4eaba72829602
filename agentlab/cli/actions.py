"""What the verbs of the command line do."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from agentlab.counting import counted


def _lab(options: argparse.Namespace) -> Any:
    from agentlab.lab import Lab

    return Lab(options.lab)


def _print(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=None))


def demo(options: argparse.Namespace) -> int:
    """``agentlab demo``"""
    from agentlab.demo import run_demo

    folder = Path(options.folder) if options.folder else None
    if options.json:
        verdict = run_demo(folder)
        _print(verdict.to_json())
    else:
        verdict = run_demo(folder, lambda line: print(line, flush=True))
        print("\n".join(verdict.lines()))
        print(f"\nThe lab is in {verdict.lab}; try: agentlab log sales_report-2 --lab {verdict.lab}")
    return 0 if verdict.verified else 1


def run(options: argparse.Namespace) -> int:
    """``agentlab run TASK``"""
    from agentlab import authoring
    from agentlab.lab.parameters import assigned, parameters

    overrides: dict[str, Any] = {}
    for name in ("policy", "scheme", "strategy"):
        if getattr(options, name):
            overrides[name] = getattr(options, name)
    task = authoring.task(options.task)
    if options.limit:
        overrides["limits"] = assigned(options.limit, "--limit")
    if options.param:
        overrides["params"] = parameters(task, options.param)
    with _lab(options) as lab:
        session = lab.create(
            task,
            session_id=options.session,
            model=options.model,
            crash=options.crash,
            faults=options.fault,
            seed=options.seed,
            **overrides,
        )
        session.start()
        return follow(session, options.json)


def wake(options: argparse.Namespace) -> int:
    """``agentlab wake SESSION``"""
    with _lab(options) as lab:
        session = lab.session(options.session)
        session.wake(
            model=options.model,
            tools=options.tools,
            takeover=options.takeover,
            trust=options.trust,
            confirm=options.confirm,
            background=True,
        )
        return follow(session, options.json)


def follow(session: Any, as_json: bool) -> int:
    from agentlab.lab.lines import QUIET, event_line

    def landed(events: Any) -> None:
        for event in events:
            if not as_json and event.type not in QUIET:
                print(event_line(event), flush=True)

    try:
        status = session.wait(None, landed)
    except KeyboardInterrupt:
        session.pause("interrupted")
        status = session.wait(30.0, landed)
    if as_json:
        _print(status.to_json())
    else:
        print(status)
    resting = status.status in ("completed", "paused", "waiting") and status.reason != "crash_loop"
    return 0 if resting else 1


def lab(options: argparse.Namespace) -> int:
    """``agentlab lab``"""
    from agentlab.budget.words import amounts

    chosen = _lab(options)
    if options.max_sessions is not None:
        chosen.queue.limit(options.max_sessions or None)
    chosen.pool.limit(**amounts(options.limit))
    chosen.pool.quota(**amounts(options.quota))
    chosen.pool.extend(**amounts(options.extend))
    places, limit, shared = chosen.queue.places(), chosen.queue.max_sessions, chosen.pool()
    if options.json:
        found = {"max_sessions": limit, "places": [place.to_json() for place in places], "pool": shared.to_json()}
        _print(found)
        return 0
    print("no limit of sessions" if limit is None else f"at most {counted(limit, 'session')} at once")
    for place in places:
        print(f"{f'place {place.place}' if place.place else 'runs':<10}{place.owner}")
    print(shared)
    return 0


def sessions(options: argparse.Namespace) -> int:
    """``agentlab sessions``"""
    found = _lab(options).statuses()
    if options.json:
        _print([status.to_json() for status in found])
    elif not found:
        print("no sessions yet; begin one with: agentlab run sales_report")
    for status in found if not options.json else ():
        print(status)
    return 0


def log(options: argparse.Namespace) -> int:
    """``agentlab log SESSION``"""
    from agentlab.lab.lines import QUIET, event_line
    from agentlab.session.superseding import is_superseded

    session = _lab(options).session(options.session)
    gone = session.superseded()
    for event in session.replay(max(1, options.from_seq)):
        if options.json:
            _print(event.to_json())
        elif options.all or event.type not in QUIET:
            print(event_line(event, is_superseded(event.seq, gone)))
    return 0


def locate(options: argparse.Namespace) -> int:
    """``agentlab locate SESSION``"""
    found = _lab(options).session(options.session).locate()
    if options.json:
        _print(found.to_json())
    else:
        print(found)
    return 0


def budget(options: argparse.Namespace) -> int:
    """``agentlab budget SESSION [extend tokens=20k …]``"""
    from agentlab.budget.words import extension

    with _lab(options) as lab:
        session = lab.session(options.session)
        if options.words:
            session.budget.extend(**extension(options.words))
        report = session.budget()
        if options.wake:
            session.wake(background=True)
            return follow(session, options.json)
        if options.json:
            _print(report.to_json())
        else:
            print(report)
    return 0


def verify(options: argparse.Namespace) -> int:
    """``agentlab verify SESSION``: 0 when every row matches, 2 with the first that does not."""
    head = _lab(options).session(options.session).verify()
    if options.json:
        _print({"session": options.session, "events": head.seq, "head": head.hash})
    else:
        print(f"{options.session}: {counted(head.seq, 'event')}, hashes intact; head {head.hash[:16]}…")
        print("A removed newest event can not be seen without a head that was kept elsewhere: keep this one.")
    return 0


def bench(options: argparse.Namespace) -> int:
    """``agentlab bench``"""
    from agentlab.bench.suite import run_bench

    figures = run_bench(quick=options.quick)
    if options.json:
        _print(figures)
    else:
        for name, value in figures.items():
            print(f"{name:<34}{value}")
    return 0


def explore(options: argparse.Namespace) -> int:
    """``agentlab explore TASK``"""
    from agentlab.explorer.command import run_explore, show

    if not options.real:
        return run_explore(options)
    from agentlab.authoring import task
    from agentlab.lab.exploring import explore_real

    report = explore_real(
        task(options.task), seed=options.seed, count=options.count, pairs=options.pairs, budget_s=options.budget
    )
    show(options, report.to_json(), report.lines)
    return 0 if report.clean else 1


def compare(options: argparse.Namespace) -> int:
    """``agentlab compare TASK``"""
    from agentlab.comparing.command import run_compare

    return run_compare(options)
