"""explore: every crash point tried, and a verdict."""

from __future__ import annotations

import argparse

from agentlab.explorer.api import durability_dial
from agentlab.explorer.command import explored, retold
from agentlab.explorer.options import add_arguments
from agentlab.notebook.explorations import DialView, ExploreView, KeptView, RealView
from agentlab.notebook.place import task_named
from agentlab.notebook.registry import Request, verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, pairs=False)


@verb("explore", "kill a task at every crash point, simulated, and judge every end from outside",
      "%agent explore sales_report --pairs --budget 60s", _arguments)  # fmt: skip
def explore(request: Request) -> ExploreView | RealView | DialView | KeptView:
    """Explore a task of a cell, a registered one, or one of a module."""
    o = request.options
    task = task_named(o.task, request.namespace)
    found = retold(o, task)
    if found is not None:
        return KeptView(str(task.name), found)
    if o.dial:
        return DialView(str(task.name), tuple(durability_dial(task)))
    if o.real:
        from agentlab.lab.exploring import explore_real

        return RealView(explore_real(task, seed=o.seed, count=o.count, pairs=o.pairs, budget_s=o.budget))
    return ExploreView(explored(o, task))
