"""export: a session's events as a file."""

from __future__ import annotations

import argparse

from agentlab.counting import counted
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.views import Said


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="a session's id; the one in hand without it")
    parser.add_argument("--to", metavar="FILE", help="NAME.jsonl (one event a line) or NAME.parquet")
    parser.add_argument("--from", dest="from_seq", type=int, default=1, metavar="SEQ", help="the first event")
    parser.add_argument("--until", dest="to_seq", type=int, metavar="SEQ", help="the last event")


@verb("export", "write a session's events to a file", "%agent export --to run.jsonl", _arguments)
def export(request: Request) -> Said:
    """Write the events; what was written is in ``value``."""
    o = request.options
    session = request.place.session(o.session)
    made = session.export(o.to, from_seq=o.from_seq, to_seq=o.to_seq)
    return Said(session.id, f"{counted(made.events, 'event')} in {made.path}", session=session, value=made)
