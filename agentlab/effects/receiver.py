"""A receiver of notifications: a real outside in its own process, with a ledger that nobody else writes.

The ledger is JSON lines, one per *executed* effect, on disk before the reply leaves. It is what experiments count
with: two lines for one key mean that the world was touched twice, whatever the session's log says.

    python -m agentlab.effects.receiver --ledger ledger.jsonl

Routes: ``POST /notify`` (header Idempotency-Key), ``GET /effects/<key>``, ``GET /ledger``, ``POST /misbehave`` and
``GET /misbehave`` (how many misdeeds are still queued).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentlab.effects.misbehave import Misdeed, Misdeeds
from agentlab.effects.owned import OwnedProcess, end_with_owner
from agentlab.errors import AgentlabError

LARGEST_BODY = 1 << 20


def read_ledger(path: str | Path) -> list[dict[str, Any]]:
    """The executed effects in order; an unfinished last line was never acknowledged and does not count.

    Raises AgentlabError for a finished line that is no JSON object: that is damage, not a crash.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    records = []
    for number, line in enumerate(raw.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise AgentlabError(f"{path}, line {number}: not a ledger line; repair or move the file away")
        records.append(record)
    return records


class Ledger:
    """The ledger file, held by one process. Raises AgentlabError when another one holds it or it is damaged."""

    def __init__(self, path: Path, ignore_keys: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise AgentlabError(f"{path}: another receiver holds this ledger") from None
        self.ignores_keys = ignore_keys
        self._lock = threading.Lock()
        self.records = read_ledger(path)
        self._by_key = {str(record["key"]): record for record in reversed(self.records)}
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._fd, whole)
        os.fsync(self._fd)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._fd)

    def find(self, key: str) -> dict[str, Any] | None:
        """The record of ``key``, None when it was not executed."""
        with self._lock:
            return self._by_key.get(key)

    def execute(self, key: str, body: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Execute once per key: the record, and whether it was there before. On disk when this returns. Raises OSError."""
        with self._lock:
            known = None if self.ignores_keys else self._by_key.get(key)
            if known is not None:
                return known, True
            number = len(self.records) + 1
            response = {"accepted": True, "id": f"notification-{number}"}
            record = {"n": number, "key": key, "ts": time.time(), "body": body, "response": response}
            before = os.fstat(self._fd).st_size
            line = json.dumps(record, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
            try:
                if os.write(self._fd, line) != len(line):
                    raise OSError("the disk took only a part of the line")
                os.fsync(self._fd)
            except OSError:
                os.ftruncate(self._fd, before)
                raise
            self.records.append(record)
            self._by_key.setdefault(key, record)
            return record, False


class Server(ThreadingHTTPServer):
    """The HTTP server around one ledger."""

    daemon_threads = True
    request_queue_size = 64  # of those who come at once none waits for a second try of its system

    def __init__(self, ledger: Ledger, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.ledger = ledger
        self.misdeeds = Misdeeds()

    def server_bind(self) -> None:
        # HTTPServer would ask the name service for this host's name, which can take seconds without a network.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])


class Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: Server
    timeout = 60.0

    def do_POST(self) -> None:
        """``/notify`` executes, ``/misbehave`` queues misdeeds."""
        body = self._body()
        if body is None:
            self._reply(400, {"error": "the body must be a JSON object of at most 1 MiB, with a Content-Length"})
        elif self.path == "/notify":
            self._notify(body)
        elif self.path == "/misbehave":
            try:
                self._reply(200, {"queued": self.server.misdeeds.replace(body.get("next") or [])})
            except (ValueError, TypeError) as error:
                self._reply(400, {"error": str(error)})
        else:
            self._reply(404, {"error": f"no route {self.path}; POST /notify or /misbehave"})

    def do_GET(self) -> None:
        """``/effects/<key>``, ``/ledger`` and ``/misbehave``."""
        ledger = self.server.ledger
        if self.path == "/ledger":
            self._reply(200, {"honours_keys": not ledger.ignores_keys, "effects": list(ledger.records)})
        elif self.path == "/misbehave":
            self._reply(200, {"queued": len(self.server.misdeeds)})
        elif not self.path.startswith("/effects/"):
            self._reply(404, {"error": f"no route {self.path}; GET /effects/<key>, /ledger or /misbehave"})
        elif ledger.ignores_keys:
            # "404" would read as "not executed", which an outside without keys can not know.
            self._reply(501, {"error": "this outside knows no keys"})
        else:
            # Decoded twice: once as part of an address, once as the header form of the key.
            key = urllib.parse.unquote(urllib.parse.unquote(self.path.removeprefix("/effects/")))
            record = ledger.find(key)
            self._reply(200, record) if record else self._reply(404, {"known": False, "key": key})

    def _notify(self, body: dict[str, Any]) -> None:
        key = urllib.parse.unquote(self.headers.get("Idempotency-Key", ""))
        ledger = self.server.ledger
        if not key and not ledger.ignores_keys:
            self._reply(400, {"error": "the header Idempotency-Key is missing"})
            return
        misdeed = self.server.misdeeds.take()
        if misdeed.kind == "late":
            time.sleep(misdeed.seconds)
        if misdeed.kind == "error_before":
            self._reply(500, {"error": "failed on demand, before executing"})
            return
        try:
            record, replayed = ledger.execute(key, body)
        except OSError as error:
            self._reply(507, {"error": f"not executed: {error}"})
            return
        self._answer(record, replayed, body, misdeed)

    def _answer(self, record: dict[str, Any], replayed: bool, body: dict[str, Any], misdeed: Misdeed) -> None:
        if misdeed.kind == "slow":
            time.sleep(misdeed.seconds)
        if misdeed.kind == "lose_reply":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif misdeed.kind == "error_after":
            self._reply(500, {"error": "failed on demand, after executing"})
        elif replayed and record["body"] != body:
            self._reply(422, {"error": "this key was executed with another body", "n": record["n"]})
        else:
            self._reply(200, record["response"], {"Idempotent-Replay": "true"} if replayed else {})

    def _body(self) -> dict[str, Any] | None:
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= LARGEST_BODY:
                return None
            raw = self.rfile.read(length)
            body = json.loads(raw) if len(raw) == length else None
        except (ValueError, OSError):
            return None
        return body if isinstance(body, dict) else None

    def _reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
        except OSError:
            # The caller went away; what was executed is in the ledger.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the ledger is the record."""


class ReceiverProcess(OwnedProcess):
    """A receiver in its own process and session, with its ledger in ``folder``; ends with its owner."""

    def __init__(self, folder: str | Path, ignore_keys: bool = False) -> None:
        self.path = Path(folder) / "ledger.jsonl"
        arguments = ["--ledger", str(self.path), *(["--ignore-keys"] if ignore_keys else [])]
        super().__init__("agentlab.effects.receiver", arguments, Path(folder))

    @property
    def url(self) -> str:
        """The base address, to be given to a task as ``receiver_url``."""
        return str(self.said.get("url", ""))

    def ledger(self) -> list[dict[str, Any]]:
        """What was executed, read from the file and not asked of the process; also after its death."""
        return read_ledger(self.path)

    def misbehave(self, *misdeeds: Any) -> None:
        """Queue misdeeds (see :mod:`agentlab.effects.misbehave`) in place of earlier ones. Raises OutsideError."""
        from agentlab.effects.notify import post

        post(f"{self.url}/misbehave", {"next": list(misdeeds)}, "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM (or, with ``--owned``, until the owner is gone); 2 when it can not start."""
    parser = argparse.ArgumentParser(prog="python -m agentlab.effects.receiver", description=__doc__)
    parser.add_argument("--ledger", type=Path, required=True, help="the file of executed effects, one JSON per line")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ignore-keys", action="store_true", help="be an outside that honours no keys")
    parser.add_argument("--owned", action="store_true", help="end when stdin is closed or the parent is gone")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server = Server(Ledger(given.ledger, given.ignore_keys), given.port)
    except (AgentlabError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if given.owned:
        end_with_owner()
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}", "port": server.server_port}), flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
