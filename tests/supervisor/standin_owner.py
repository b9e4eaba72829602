"""An owner in a process of its own: ``standin_owner.py LAB GRACE MODE PLANS``.

MODE ``fork`` keeps a worker alive that holds a copy of the channel to the keeper; ``fork_plain`` forks as any library
would, after which the copy has to be closed. SIGINT is answered with a line, as a notebook's kernel would survive it.
"""

import os
import signal
import sys

from agentlab.supervisor import Supervisor

lab, grace, mode, plans = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4]
harness = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin_harness.py")
owner = Supervisor(lab, grace_s=grace)
owner.start("s", [sys.executable, "-I", "-S", harness, lab, "s", plans])
if mode.startswith("fork"):
    assert owner._connection is not None
    channel = owner._connection._socket.fileno()
    if mode == "fork":
        os.dup(channel)
    if os.fork() == 0:
        if mode == "fork_plain":
            try:
                os.fstat(channel)
                os._exit(1)
            except OSError:
                assert owner.running() == [] and owner.status() == {}
        os.write(1, f"worker {os.getpid()}\n".encode())  # one write: two processes share the pipe
        signal.pause()
signal.signal(signal.SIGINT, lambda *_: print("interrupted", owner.alive("s"), flush=True))
os.write(1, f"owner {os.getpid()}\n".encode())
while True:
    signal.pause()
