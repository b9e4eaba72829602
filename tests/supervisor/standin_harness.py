"""A harness that does what it is told: ``standin_harness.py LAB SESSION PLANS``. Standard library only, so it is quick.

PLANS is a JSON list of lists of actions, one list for each start (the last one serves for all that follow).
What it found at its start goes as a line into ``LAB/told.jsonl``.
"""

import time

STARTED_NS = time.monotonic_ns()

import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402

lab, session, plans = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
starts = int(os.environ["AGENTLAB_STARTS"])
link = socket.socket(fileno=int(os.environ["AGENTLAB_KEEPER_FD"]))
link.set_inheritable(False)
replies = link.makefile("r")
CHILD = "import signal\nsignal.pause()"
DAEMON = "import os, signal\nif os.fork() == 0:\n os.setsid()\n if os.fork():\n  os._exit(0)\nsignal.pause()"


def tell(**entry: object) -> None:
    entry.update(session=session, pid=os.getpid(), starts=starts)
    with open(os.path.join(lab, "told.jsonl"), "a") as file:
        file.write(json.dumps(entry) + "\n")


def send(**message: object) -> None:
    link.sendall(json.dumps(message).encode() + b"\n")


def spawn(kind: str, code: str) -> None:
    argv = [sys.executable, "-I", "-S", "-c", code, lab]
    send(op="spawn", id=1, kind=kind, argv=argv, env={"MARK": "child"}, cwd=lab, log_path=None)
    tell(spawned=kind, answer=json.loads(replies.readline()))


def earlier_children() -> dict[str, bool]:
    """Of the children that harnesses before this one have spawned: whether the process is still there, zombies too."""
    there = {}
    if os.path.exists(os.path.join(lab, "told.jsonl")):
        with open(os.path.join(lab, "told.jsonl")) as file:
            for line in map(json.loads, file):
                if line.get("spawned") and line["session"] == session:
                    pid = line["answer"]["record"]["pid"]
                    try:
                        os.kill(pid, 0)
                        there[line["spawned"]] = True
                    except ProcessLookupError:
                        there[line["spawned"]] = False
    return there


def do(action: str) -> None:
    verb, _, rest = action.partition(":")
    if verb == "spawn":
        spawn(rest, CHILD)
    elif verb == "daemon":
        spawn(rest, DAEMON)
    elif verb == "work":
        send(op="progress", seq=int(rest), state="running", work=True, incarnation=starts + 1)
    elif verb == "progress":
        send(op="progress", seq=int(rest), state="running")
    elif verb == "garbage":
        link.sendall(b'no json\n[1]\n{"op":"progress","seq":"x"}\n{"op":"spawn","id":7,"kind":"pet"}\n')
        tell(garbage=json.loads(replies.readline()))
    elif verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == "exit":
        os._exit(int(rest))
    elif verb == "done":
        send(op="done", state=rest)
        os._exit(0)
    elif verb == "ignore_term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif verb == "stay":
        tell(staying=True)
        while True:
            signal.pause()


tell(
    started_ns=STARTED_NS,
    death=json.loads(os.environ.get("AGENTLAB_DEATH", "null")),
    arm=json.loads(os.environ.get("AGENTLAB_ARM", "null")),
    there=earlier_children(),
    sigint=signal.getsignal(signal.SIGINT) is signal.default_int_handler,
)
for each in plans[min(starts, len(plans) - 1)]:
    do(each)
