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
    clock = ShiftedClock(SystemClock())
    arming = _armed(os.environ.pop("AGENTLAB_ARM", None), options, clock)
    reach(CrashPoint.WAKE, "before")
    try:
        why = drive(options, link, arming, clock)
    except Fenced as error:
        # A second harness that an injected fault woke is dead by now: then the next one is to follow, as after a death.
        return _failed(error, None if arming.succeeded else link, EXIT_FENCED, "fenced")
    except UserError as error:
        return _failed(error, link, EXIT_REFUSED, "refused")
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


def _armed(schedule: str | None, options: argparse.Namespace, clock: ShiftedClock) -> Arming:
    from agentlab.log.paths import folder_name
    from agentlab.sandbox.killing import kill_sandbox, stop_sandbox

    folder = Path(options.lab) / "sessions" / folder_name(options.session) / "faults"

    def kill(record: Any, target: str, action: str) -> None:
        if action == "stop":
            stop_sandbox(record)
        else:
            kill_sandbox(record, keep_folder=target == "sandbox-process")

    arming = Arming(folder, lambda: {}, kill, clock.shift, lambda death_id: _second(options, death_id))
    crashpoints.arm(arming)
    if schedule:
        arming.add([fault_from_json(f) for f in json.loads(schedule)])
    return arming


def _second(options: argparse.Namespace, death_id: str) -> None:
    """Wake another harness on this session, let it open it, and let it die: who woke first is the zombie now."""
    import subprocess

    death = {"id": death_id, "target": "harness", "point": CrashPoint.WAKE.value, "when": "after"}
    argv = [sys.executable, "-P", "-m", "agentlab.harness.child", "--lab", options.lab, f"--session={options.session}"]
    argv += ["--takeover", *(["--trust"] if options.trust else [])]
    env = {**os.environ, "AGENTLAB_ARM": json.dumps([death])}
    subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, timeout=60, check=False)


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
