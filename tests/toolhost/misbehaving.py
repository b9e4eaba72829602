"""Callables that do what a tool should not do. Standard library only: also loaded inside tool hosts and sandboxes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


def ok() -> str:
    return "ok"


def pid() -> int:
    return os.getpid()


def hang(pid_file: str, family: bool = False) -> None:
    """Note the pids of this process, of a child and of a child with a session of its own that lost its parent."""
    pids = [os.getpid()]
    if family:
        pids.append(subprocess.Popen(SLEEP).pid)
        code = f"import subprocess; print(subprocess.Popen({SLEEP!r}, start_new_session=True, stdout=2).pid)"
        pids.append(int(subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE).stdout))
    part = Path(pid_file + ".part")
    part.write_text(" ".join(map(str, pids)))
    print("hanging")
    part.rename(pid_file)
    while True:
        time.sleep(600)


def hang_deaf(pid_file: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    hang(pid_file)


def segfault() -> None:
    print("about to crash")
    ctypes.string_at(0)


def leave(code: int = 7) -> None:
    print("leaving")
    os._exit(code)


def leave_with_heirs() -> None:
    """Die while a forked child still holds every descriptor."""
    if os.fork() == 0:
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)


def fork_and_return() -> str:
    return "child" if os.fork() == 0 else "parent"


def flood(size: int) -> str:
    """Through descriptor 1, without Python's help, and past what a pipe holds."""
    os.write(1, b"first\n")
    for _ in range(size // 100_000):
        os.write(1, b"." * 100_000)
    subprocess.run(["echo", "from a child"], check=True)
    print("last", end="")
    return "flooded"


def close_output() -> str:
    sys.stdout.close()
    os.close(1)
    return "closed"


def read_input() -> str:
    return sys.stdin.read()


def too_large() -> str:
    return "x" * (65 << 20)


def write_and_list(name: str, text: str) -> list[str]:
    Path(name).write_text(text)
    print("listing")
    return sorted(p.name for p in Path.cwd().iterdir())


def environment(name: str) -> Any:
    return os.environ.get(name)
