"""The private folder of a sandbox's socket: made, named, told apart from others', removed. Standard library only.

It stands in the folder for temporary files, because a socket's path has room for about 100 bytes and a lab's path can
be longer. Besides the socket it holds a note of the process that listens, so that what a killed sandbox left behind
can be told from what lives.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX, SOCKET, NOTE = "agentlab-", "s", "sandbox.json"
_FOLDER = re.compile(rf"{PREFIX}[0-9a-f]{{12}}")


def new_address() -> str:
    """A new private folder, and in it the address of a socket.

    Raises:
        OSError: there is no folder to write into with a path that is short enough.
    """
    for parent in _parents():
        path = os.path.join(parent, f"{PREFIX}{os.urandom(6).hex()}")
        if len(os.fsencode(path)) <= 90 and os.access(parent, os.W_OK):
            os.mkdir(path, 0o700)
            return os.path.join(path, SOCKET)
    raise OSError("no writable folder with a short path for a socket: set TMPDIR to one")


def note(address: str, record: Mapping[str, Any]) -> None:
    """Say beside the socket which process listens there. On a full disk it is not said: a sandbox starts without it."""
    try:
        with open(os.path.join(os.path.dirname(address), NOTE), "w", encoding="utf-8") as file:
            json.dump(dict(record), file)
    except OSError:
        pass


def noted(address: str) -> dict[str, Any] | None:
    """The process record that was noted beside the socket, None without a whole one."""
    try:
        with open(os.path.join(os.path.dirname(address), NOTE), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "pid" in record else None


def remove(address: str) -> None:
    """Remove a socket, its note and their folder, if it is such a folder. Never raises OSError."""
    folder, name = os.path.split(address)
    if name != SOCKET or not os.path.basename(folder).startswith(PREFIX):
        return
    for remove, path in ((os.unlink, address), (os.unlink, os.path.join(folder, NOTE)), (os.rmdir, folder)):
        try:
            remove(path)
        except OSError:
            pass


def refuses(address: str) -> bool:
    """Whether surely nobody listens: the system refuses the connection, or there is no socket (any more, or yet)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


def addresses() -> Iterator[tuple[str, float]]:
    """Every such folder of this user, as the address in it and when the folder changed last (seconds since 1970)."""
    for parent in dict.fromkeys(map(os.path.realpath, _parents())):
        try:
            names = [name for name in os.listdir(parent) if _FOLDER.fullmatch(name)]
        except OSError:
            continue
        for name in names:
            folder = os.path.join(parent, name)
            try:
                about = os.lstat(folder)
                mine = about.st_uid == os.getuid() and not os.path.islink(folder)
                if mine and set(os.listdir(folder)) <= {SOCKET, NOTE}:
                    yield os.path.join(folder, SOCKET), about.st_mtime
            except OSError:
                continue  # it goes at this moment


def _parents() -> list[str]:
    return [parent for parent in (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp") if parent]
