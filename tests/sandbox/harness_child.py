"""A harness to be killed: attaches to the sandbox of a record (a file), executes one command, and says when it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentlab.clock import SystemClock
from agentlab.crashpoints import CrashPoint, When, arm
from agentlab.ports import Execution, Resources
from agentlab.sandbox import DirectSpawner, LocalSandboxes


def tell(point: CrashPoint, when: When, detail: str) -> None:
    if (point, when) == (CrashPoint.SANDBOX_EXECUTE, "after"):
        print("running", flush=True)


if __name__ == "__main__":
    lab, record, exec_id = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3]
    local = LocalSandboxes(lab, lab / "blobs", DirectSpawner(), SystemClock())
    sandbox = local.attach(record, 1, Resources(timeout_s=60))
    arm(tell)
    done = sandbox.execute(exec_id, Execution(sys.argv[4:]))
    print(done.stdout, flush=True)
