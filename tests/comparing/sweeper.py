"""A process that sweeps slowly, to be killed: ``python sweeper.py LAB LEDGER``. Each call of its function is a line in a ledger."""

import os
import sys
import time
from pathlib import Path

import agentlab as al

LEDGER = "AGENTLAB_TEST_LEDGER"


def slowly(number, letter, seed):
    with open(os.environ[LEDGER], "a") as file:
        file.write(f"{number} {letter} {seed} {os.getpid()}\n")
    time.sleep(0.15)
    if number == 2 and letter == "b":
        raise ValueError("two b fails")
    return {"sum": number + seed, "word": letter * number}


def run(lab):
    return al.sweep({"number": [1, 2, 3], "letter": ["a", "b"]}, slowly, seeds=3, lab=al.Lab(lab), progress=False)


if __name__ == "__main__":
    os.environ[LEDGER] = sys.argv[2]
    Path(sys.argv[2]).touch()
    run(sys.argv[1])
