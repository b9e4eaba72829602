"""The verbs of the command line and their options."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from typing import Any, NoReturn

from agentlab.cli import actions, analysing
from agentlab.cli.answering import add_verbs as add_answering_verbs
from agentlab.cli.timetravel import add_verbs as add_timetravel_verbs
from agentlab.comparing.options import add_arguments as add_compare_options
from agentlab.explorer.options import add_arguments as add_explore_options
from agentlab.pool.words import session_limit
from agentlab.session.schemes import SCHEMES
from agentlab.session.strategies import STRATEGIES
from agentlab.version import __version__


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line and name the nearest right word."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice: '" in message:
            wrong = message.split("invalid choice: '")[1].split("'")[0]
            verbs = [v for a in self._actions if a.choices for v in map(str, a.choices)]
            near = difflib.get_close_matches(wrong, verbs, n=3)
            message = f"no verb {wrong!r}" + (
                f": did you mean {' or '.join(near)}?" if near else "; see agentlab --help"
            )
        elif message.startswith("unrecognized arguments: --"):
            wrong = message.split(": ", 1)[1].split()[0].split("=")[0]
            known = sorted({o for a in self._all_options() for o in a})
            near = difflib.get_close_matches(wrong, known, n=3, cutoff=0.7)
            message = f"no option {wrong}" + (
                f": did you mean {' or '.join(near)}?" if near else f"; see {self.prog} --help"
            )
        self.exit(2, f"{self.prog}: {message}\n")

    def _all_options(self) -> list[list[str]]:
        found = [list(a.option_strings) for a in self._actions]
        for action in self._actions:
            for sub in (action.choices or {}).values() if isinstance(action.choices, dict) else ():
                found += [list(a.option_strings) for a in sub._actions]
        return found


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``agentlab``."""
    parser = Parser(prog="agentlab", description="A bench for long-running agents that must survive crashes.")
    parser.add_argument("--version", action="version", version=f"agentlab {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=Parser)

    def verb(name: str, action: Callable[[Any], int], summary: str, lab: bool = True, session: bool = False) -> Any:
        sub = verbs.add_parser(name, help=summary, description=summary)
        sub.set_defaults(action=action)
        sub.add_argument("--json", action="store_true", help="print one JSON object")
        if session:
            sub.add_argument("session", help="a session id")
        if lab:
            sub.add_argument("--lab", default="lab", help="the folder of the lab (default: ./lab)")
        return sub

    _running(verb)
    _asking(verb)
    add_timetravel_verbs(verb)
    add_answering_verbs(verb)
    analysing.add_verbs(verb)
    _experimenting(verb)
    return parser


def _running(verb: Callable[..., Any]) -> None:
    """Verbs that drive sessions, and what a lab lets them use."""
    demo = verb("demo", actions.demo, "run one real task undisturbed and under kills, and judge it", lab=False)
    demo.add_argument("--folder", help="where the demo's lab goes (default: a new temporary folder)")
    run = verb("run", actions.run, "run a task until it pauses or ends")
    run.add_argument("task", help="the name of a task, or package.module[:NAME]")
    run.add_argument("--session", help="the id of the new session")
    run.add_argument("--model", help="another model than the task's")
    run.add_argument(
        "--policy",
        help="a checkpoint policy, as every=5, steps=1, seconds=30, milestones, daly=60, never; a+b: any, a&b: all",
    )
    run.add_argument(
        "--crash", action="append", default=[], metavar="FAULT", help="harness@tool_result, sandbox@step=4 …"
    )
    run.add_argument("--scheme", choices=tuple(SCHEMES), help="what a recovery rests on (default: the task's)")
    run.add_argument("--strategy", choices=tuple(STRATEGIES), help="what the model is told after a crash")
    run.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="model:529*3, tool(notify):lost_reply, disk:full …",
    )
    run.add_argument("--seed", type=int, help="the seed of random faults, recorded with them")
    run.add_argument(
        "--limit", action="append", default=[], metavar="NAME=NUMBER", help="a limit: tokens=20k, cost=2.50 …"
    )
    run.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the task")
    wake = verb("wake", actions.wake, "take a session up again after its cursor", session=True)
    wake.add_argument("--model", help="go on under another model")
    wake.add_argument("--tools", choices=("current",), help="run tools whose source has changed as they are now")
    wake.add_argument("--confirm", action="store_true", help="ask a person before a recovery is over")
    wake.add_argument("--takeover", action="store_true", help="kill another harness of this session first")
    wake.add_argument("--trust", action="store_true", help="run pickled tools that another owner made")
    lab = verb("lab", actions.lab, "say how many sessions a lab runs at once, or set it; who runs, who waits")
    lab.add_argument("--max-sessions", type=session_limit, metavar="N", help="a number from 1 on, or none for no limit")
    lab.add_argument("--limit", action="append", default=[], metavar="DIMENSION=AMOUNT", help="a budget that all share")
    lab.add_argument(
        "--quota", action="append", default=[], metavar="NAME=NUMBER", help="sends per minute, of all sessions"
    )
    lab.add_argument("--extend", action="append", default=[], metavar="DIMENSION=AMOUNT", help="give that budget more")
    budget = verb("budget", actions.budget, "what a session used, reserved and has left; extend it", session=True)
    budget.add_argument("words", nargs="*", metavar="extend DIMENSION=AMOUNT", help="as in extend tokens=20k cost=2.50")
    budget.add_argument("--wake", action="store_true", help="go on at once after an extension")


def _asking(verb: Callable[..., Any]) -> None:
    """Verbs that look at sessions."""
    verb("sessions", actions.sessions, "list the sessions of a lab")
    log = verb("log", actions.log, "show the events of a session", session=True)
    log.add_argument("--from", dest="from_seq", type=int, default=1, metavar="SEQ", help="the first event to show")
    log.add_argument("--all", action="store_true", help="quiet kinds too")
    verb("locate", actions.locate, "say where a session is and what failed", session=True)
    verb("verify", actions.verify, "check every row's hash", session=True)


def _experimenting(verb: Callable[..., Any]) -> None:
    """Verbs that run many sessions to learn something."""
    explore = verb(
        "explore", actions.explore, "kill a task at every crash point, simulated, and judge every end", lab=False
    )
    add_explore_options(explore)
    compare = verb("compare", actions.compare, "which checkpoint policy costs what, under crashes, simulated or real")
    add_compare_options(compare)
    bench = verb("bench", actions.bench, "measure this machine and this code, as ratios in one run", lab=False)
    bench.add_argument("--quick", action="store_true", help="fewer repetitions")
