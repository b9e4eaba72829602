"""panel: the widgets that drive, kill and watch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agentlab.lab.parameters import parameters
from agentlab.notebook.panel import panel as open_panel
from agentlab.notebook.place import task_named
from agentlab.notebook.registry import Request, verb

if TYPE_CHECKING:
    from agentlab.notebook.panel.board import Panel


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="*", help="sessions to show side by side; the one in hand without any")
    parser.add_argument("--task", metavar="NAME", help="begin a session of this task first; it waits for run")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="with --task: a parameter")


@verb("panel", "drive, kill and watch with widgets", "%agent panel sales_report-1", _arguments)
def panel(request: Request) -> Panel:
    """Open a panel; it never blocks."""
    o, place = request.options, request.place
    if o.task is not None:
        task = task_named(o.task, request.namespace)
        made = place.lab.create(task, params=parameters(task, o.param))
        return open_panel([*map(place.lab.session, o.session), place.take(made)])
    return open_panel([place.lab.session(name) for name in o.session] or place.session())
