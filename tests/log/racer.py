"""Runs as a process of its own: appends against others until it has won often enough, sealing now and then."""

from __future__ import annotations

import sys

from agentlab.contracts.log import events_after
from agentlab.errors import Conflict
from agentlab.log import ParquetStore


def main() -> None:
    lab, name, wins = sys.argv[1], sys.argv[2], int(sys.argv[3])
    log = ParquetStore(lab).open("race")
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    while won < wins:
        head = log.head()
        commit = f"{name}-{won}-{head.seq}"
        try:
            log.append(events_after(head, "race", [name] * (1 + won % 3), commit_id=commit), head.seq + 1)
        except Conflict:
            continue
        won += 1
        print(commit, flush=True)
        if won % 7 == 0:
            log.seal()


if __name__ == "__main__":
    main()
