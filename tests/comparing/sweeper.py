"""A process that sweeps slowly, to be killed: ``python sweeper.py LAB LEDGER``. Each call of its function is a line in a ledger.

In that process calls after the sixth wait to be killed, so that the sweep is never over before.
"""

import os
import sys
import time
from pathlib import Path

import agentlab as al

LEDGER, HOLD = "AGENTLAB_TEST_LEDGER", "AGENTLAB_TEST_HOLD"


def slowly(number, letter, seed):
    with open(os.environ[LEDGER], "ab", buffering=0) as file:
        file.write(f"{number} {letter} {seed} {os.getpid()}\n".encode())
        before = Path(os.environ[LEDGER]).read_bytes()[: file.tell()].count(b"\n")
    time.sleep(600 if HOLD in os.environ and before > 6 else 0.15)
    if number == 2 and letter == "b":
        raise ValueError("two b fails")
    return {"sum": number + seed, "word": letter * number}


def run(lab):
    return al.sweep({"number": [1, 2, 3], "letter": ["a", "b"]}, slowly, seeds=3, lab=al.Lab(lab), progress=False)


if __name__ == "__main__":
    os.environ |= {LEDGER: sys.argv[2], HOLD: "yes"}
    Path(sys.argv[2]).touch()
    run(sys.argv[1])
