"""A small real SMTP server on loopback that delivers to a Maildir and honours no keys: each DATA is one more mail.

    python -m agentlab.testing.smtp_server --maildir inbox

The mail is on disk before ``250`` is said. The verb ``XNEXT <JSON list>`` queues misdeeds (see
:mod:`agentlab.effects.misbehave`), one per DATA.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import smtplib
import socket
import socketserver
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentlab.effects.misbehave import Misdeeds
from agentlab.effects.owned import OwnedProcess, end_with_owner
from agentlab.errors import AgentlabError

LARGEST_MAIL = 10 << 20
_LONGEST_LINE = 1 << 16


class Maildir:
    """A mailbox folder with ``tmp``, ``new`` and ``cur``; several servers may deliver into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = itertools.count(1)
        for part in ("tmp", "new", "cur"):
            (folder / part).mkdir(parents=True, exist_ok=True)

    def deliver(self, mail: bytes) -> str:
        """Put ``mail`` into ``new``; on disk when this returns its name. Raises OSError."""
        name = f"{time.time_ns()}.P{os.getpid()}Q{next(self._count)}.localhost"
        draft, target = self.folder / "tmp" / name, self.folder / "new" / name
        with draft.open("xb") as file:
            file.write(mail)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return name


class Server(socketserver.ThreadingTCPServer):
    """The server around one Maildir."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, maildir: Maildir, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.maildir = maildir
        self.misdeeds = Misdeeds()


class Handler(socketserver.StreamRequestHandler):
    """One conversation."""

    server: Server
    timeout = 60.0

    def handle(self) -> None:
        """Serve verbs until QUIT or the end of the connection."""
        self._sender, self._recipients = "", list[str]()
        try:
            self._say("220 localhost agentlab mail for tests")
            while line := self.rfile.readline(_LONGEST_LINE):
                verb, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
                if not self._serve(verb.upper(), rest):
                    return
        except OSError:
            # The client is gone or silent for too long; what was delivered stays delivered.
            return

    def _serve(self, verb: str, rest: str) -> bool:
        if verb in ("HELO", "EHLO"):
            self._say(f"250-localhost\r\n250 SIZE {LARGEST_MAIL}" if verb == "EHLO" else "250 localhost")
        elif verb == "MAIL":
            self._sender, self._recipients = rest, []
            self._say("250 ok")
        elif verb == "RCPT":
            self._recipients.append(rest)
            self._say("250 ok" if self._sender else "503 MAIL first")
        elif verb == "DATA":
            return self._data()
        elif verb in ("RSET", "NOOP"):
            self._sender, self._recipients = ("", []) if verb == "RSET" else (self._sender, self._recipients)
            self._say("250 ok")
        elif verb == "XNEXT":
            try:
                self._say(f"250 {self.server.misdeeds.replace(json.loads(rest))} queued")
            except (ValueError, TypeError) as error:
                self._say(f"501 {error}")
        elif verb == "QUIT":
            self._say("221 bye")
            return False
        else:
            self._say("502 no such verb")
        return True

    def _data(self) -> bool:
        if not self._sender or not self._recipients:
            self._say("503 MAIL and RCPT first")
            return True
        self._say("354 end with a dot")
        mail = self._mail()
        self._sender, self._recipients = "", []
        if mail is None:
            return False
        if len(mail) > LARGEST_MAIL:
            self._say("552 too large")
            return True
        misdeed = self.server.misdeeds.take()
        if misdeed.kind == "late":
            time.sleep(misdeed.seconds)
        if misdeed.kind == "error_before":
            self._say("451 failed on demand, before delivery")
            return True
        try:
            name = self.server.maildir.deliver(mail)
        except OSError as error:
            self._say(f"452 not delivered: {error}")
            return True
        if misdeed.kind == "slow":
            time.sleep(misdeed.seconds)
        if misdeed.kind == "lose_reply":
            self.connection.shutdown(socket.SHUT_RDWR)
            return False
        self._say("451 failed on demand, after delivery" if misdeed.kind == "error_after" else f"250 delivered {name}")
        return True

    def _mail(self) -> bytes | None:
        """The lines up to the lone dot, unstuffed; None when the connection ended before it: that is no mail."""
        kept, size, fresh = list[bytes](), 0, True
        while line := self.rfile.readline(_LONGEST_LINE):
            if fresh and line == b".\r\n":
                return b"".join(kept)
            text = line[1:] if fresh and line.startswith(b".") else line
            # Only a CRLF ends a line: a bare LF and a dot must not smuggle in a second mail.
            fresh = line.endswith(b"\r\n")
            size += len(text)
            if size <= LARGEST_MAIL + _LONGEST_LINE:
                kept.append(text)
        return None

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class SmtpServerProcess(OwnedProcess):
    """The server in its own process and session, delivering to ``folder/Maildir``; ends with its owner."""

    host = "127.0.0.1"

    def __init__(self, folder: str | Path) -> None:
        self.maildir = Path(folder) / "Maildir"
        super().__init__("agentlab.testing.smtp_server", ["--maildir", str(self.maildir)], Path(folder))

    def mails(self) -> list[bytes]:
        """What was delivered, oldest first, read from the folder and not asked of the process."""
        paths = [path for part in ("new", "cur") for path in (self.maildir / part).glob("*")]
        return [path.read_bytes() for path in sorted(paths, key=lambda path: path.name)]

    def misbehave(self, *misdeeds: Any) -> None:
        """Queue misdeeds, one per mail, in place of earlier ones. Raises AgentlabError for one that it does not know."""
        with smtplib.SMTP(self.host, self.port, timeout=60) as client:
            code, said = client.docmd("XNEXT", json.dumps(list(misdeeds)))
        if code != 250:
            raise AgentlabError(f"the mail server said {code} {said.decode('utf-8', 'replace')}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM (or, with ``--owned``, until the owner is gone); 2 when it can not start."""
    parser = argparse.ArgumentParser(prog="python -m agentlab.testing.smtp_server", description=__doc__)
    parser.add_argument("--maildir", type=Path, required=True, help="the folder to deliver to; made if missing")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--owned", action="store_true", help="end when stdin is closed or the parent is gone")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server = Server(Maildir(given.maildir), given.port)
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    if given.owned:
        end_with_owner()
    port = int(server.server_address[1])
    print(json.dumps({"host": "127.0.0.1", "port": port}), flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
