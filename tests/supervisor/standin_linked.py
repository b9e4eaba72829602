"""A harness that uses the real link: spawns through ``KeeperSpawner`` and ends itself by ``ParentWatch``."""

import json
import os
import signal
import sys

from agentlab.errors import SandboxError
from agentlab.keeperlink import KeeperLink, KeeperSpawner, death_told

lab = sys.argv[1]
link = KeeperLink.from_env()
assert link is not None and "AGENTLAB_KEEPER_FD" not in os.environ and not os.get_inheritable(link.fileno())


def gone(reason: str) -> None:
    with open(os.path.join(lab, "gone"), "w") as file:
        file.write(reason)
    os._exit(0)


link.watch(gone)
death = death_told()
spawner = KeeperSpawner(link)
argv = [sys.executable, "-I", "-S", "-c", "import sys\nsys.stdin.read()", lab]  # ends with its keeper, by end of file
record = spawner.spawn("sandbox", argv, {"PATH": os.environ["PATH"]}, lab, None)
try:
    spawner.spawn("sandbox", ["/nowhere/at/all"], {}, lab, None)
except SandboxError as error:
    refused = str(error)
link.progress(7, "running", work=True, incarnation=3)
with open(os.path.join(lab, "linked.tmp"), "w") as file:
    json.dump({"pid": os.getpid(), "sandbox": record.to_json(), "refused": refused, "death": death}, file)
os.replace(os.path.join(lab, "linked.tmp"), os.path.join(lab, f"linked-{os.environ['AGENTLAB_STARTS']}"))
while True:
    signal.pause()
