"""The harness as a process: ``python -m agentlab.harness.child --lab LAB --session ID``.

It holds nothing that can not be rebuilt: it loads the session from the log, opens an incarnation, drives the loop
and leaves. It ends at once when the process above it is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from agentlab import crashpoints
from agentlab.clock import Clock, ShiftedClock, SystemClock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import AgentlabError, Fenced, UserError
from agentlab.faults.arming import Arming
from agentlab.faults.spec import fault_from_json
from agentlab.harness.assembly import assemble
from agentlab.harness.sealing import seal_ended
from agentlab.harness.second import SecondHarness, watch_first
from agentlab.keeperlink import KeeperLink, death_told

EXIT_FENCED, EXIT_REFUSED, EXIT_FAILED = 4, 5, 6


def main(argv: list[str] | None = None) -> int:
    """Run one incarnation; the exit code is 0 when the session rests."""
    parser = argparse.ArgumentParser(prog="agentlab.harness.child", description=__doc__)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--session", required=True)
    parser.add_argument("--takeover", action="store_true", help="another harness was fenced on purpose")
    parser.add_argument("--trust", action="store_true", help="run pickled code of another owner")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _close_stdin()
    link = KeeperLink.from_env()
    if link is not None:
        link.watch(lambda reason: os._exit(3))
    watch_first(lambda reason: os._exit(3))
    clock = ShiftedClock(SystemClock())
    second = SecondHarness(Path(options.lab), options.session, options.trust)
    arming = _armed(os.environ.pop("AGENTLAB_ARM", None), options, clock, second)
    reach(CrashPoint.WAKE, "before")
    try:
        why = drive(options, link, arming, clock)
    except Fenced as error:
        return _fenced(error, link, EXIT_FENCED, "fenced", second)
    except UserError as error:
        return _fenced(error, link, EXIT_REFUSED, "refused", second)
    except AgentlabError as error:
        return _failed(error, None, EXIT_FAILED, "failed")
    if why == "ended":
        # Before the goodbye: a harness that dies in here is followed by one that finishes it.
        seal_ended(Path(options.lab), options.session)
    if link is not None:
        link.done(why)
    return 0


def drive(options: argparse.Namespace, link: KeeperLink | None, arming: Arming, clock: Clock) -> str:
    """Assemble the rig, open the incarnation and drive the session until it rests; returns why."""
    incarnation = assemble(
        Path(options.lab), options.session, link=link, death=death_told(), takeover=options.takeover,
        trust=options.trust, arming=arming, clock=clock,
    )  # fmt: skip
    if incarnation is None:
        return "ended"
    try:
        return incarnation.run()
    finally:
        incarnation.close()


def _armed(schedule: str | None, options: argparse.Namespace, clock: ShiftedClock, second: SecondHarness) -> Arming:
    from agentlab.log.paths import folder_name
    from agentlab.sandbox.killing import kill_sandbox, stop_sandbox

    folder = Path(options.lab) / "sessions" / folder_name(options.session) / "faults"

    def kill(record: Any, target: str, action: str) -> None:
        if action == "stop":
            stop_sandbox(record)
        else:
            kill_sandbox(record, keep_folder=target == "sandbox-process")

    arming = Arming(folder, lambda: {}, kill, clock.shift, second.start)
    crashpoints.arm(arming)
    if schedule:
        arming.add([fault_from_json(f) for f in json.loads(schedule)])
    return arming


def _fenced(error: AgentlabError, link: KeeperLink | None, code: int, state: str, second: SecondHarness) -> int:
    """This harness stops; where a fault had started a second one, its parent stays until that one has left."""
    if not second.started:
        return _failed(error, link, code, state)
    _failed(error, None, code, state)
    crashpoints.arm(None)
    why = second.follow()
    if why is None:  # the second died: as after any death the keeper starts the next
        return code
    if link is not None:
        link.done(why)
    return 0


def _failed(error: AgentlabError, link: KeeperLink | None, code: int, state: str) -> int:
    print(f"agentlab: {error}", file=sys.stderr, flush=True)
    if link is not None:  # restarting would end the same way
        link.done(state)
    return code


def _close_stdin() -> None:
    """Nobody types into a harness: what reads from it gets the end of the file instead of waiting for ever."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _leave(number: int, frame: FrameType | None) -> None:
    # What is staged is lost by design: it was never acknowledged, and the next harness finds the call unanswered.
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
