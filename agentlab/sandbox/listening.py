"""Connections of the sandbox process: JSON lines both ways, never blocking on a slow reader. Standard library only."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Callable
from functools import partial

from agentlab.sandbox import sockets
from agentlab.sandbox.workplace import Refused

BEAT_S = 1.0
"""Seconds between two signs of life to somebody who waits for a result."""
LINE_LIMIT = 64 << 20
"""Bytes of one request; whoever sends more is cut off."""
Json = dict[str, object]


class Connection:
    """One harness, or what claims to be one."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.incarnation = 0
        self.waiting_for: str | None = None
        self.received, self.to_send = bytearray(), bytearray()


class Listener:
    """Accepts, reads lines, hands them to ``handle`` and sends what it answers (nothing yet, when that is None)."""

    def __init__(
        self, path: str, selector: selectors.BaseSelector, handle: Callable[[Connection, Json], Json | None]
    ) -> None:
        self._path, self._selector, self._handle = path, selector, handle
        self._connections: dict[int, Connection] = {}
        self._last_beat = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.bind(path)
        self._socket.listen(16)
        selector.register(self._socket, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except OSError:
            return
        sock.setblocking(False)
        connection = Connection(sock)
        self._connections[sock.fileno()] = connection
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._ready(connection))

    def _ready(self, connection: Connection) -> None:
        if connection.to_send:
            self._flush(connection)
        try:
            data = connection.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(connection.received) > LINE_LIMIT:
            self._drop(connection)
            return
        searched = len(connection.received)
        connection.received += data
        while (end := connection.received.find(b"\n", searched)) >= 0:
            line = bytes(connection.received[:end])
            del connection.received[: end + 1]
            searched = 0
            self._answer(connection, partial(self._parsed, connection, line))

    def _parsed(self, connection: Connection, line: bytes) -> Json | None:
        return self._handle(connection, json.loads(line))

    def _answer(self, connection: Connection, make: Callable[[], Json | None]) -> None:
        try:
            answer = make()
            if answer is not None:
                answer = {"ok": True, **answer}
        except Refused as error:
            answer = {"ok": False, "kind": error.kind, "message": str(error)}
        except OSError as error:
            answer = {"ok": False, "kind": "failed", "message": str(error)}
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            answer = {"ok": False, "kind": "protocol", "message": f"{type(error).__name__}: {error}"}
        if answer is not None:
            self._send(connection, json.dumps(answer, separators=(",", ":")).encode("ascii") + b"\n")

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.to_send += data
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            while connection.to_send:
                del connection.to_send[: connection.sock.send(connection.to_send)]
        except BlockingIOError:
            pass
        except OSError:
            # Gone: reading says so at once, and drops the connection.
            connection.to_send.clear()
        if connection.sock.fileno() in self._connections:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.to_send else 0)
            self._selector.modify(connection.sock, events, lambda: self._ready(connection))

    def _drop(self, connection: Connection) -> None:
        self._connections.pop(connection.sock.fileno(), None)
        self._selector.unregister(connection.sock)
        connection.sock.close()

    def answer_waiting(self, exec_id: str, make: Callable[[], Json]) -> None:
        """Answer everybody who waits for ``exec_id``."""
        for connection in list(self._connections.values()):
            if connection.waiting_for == exec_id:
                connection.waiting_for = None
                self._answer(connection, make)

    def cut_off_below(self, incarnation: int) -> None:
        """Tell lower incarnations that wait for something that they wait in vain."""

        def refuse() -> Json:
            raise Refused("fenced", f"incarnation {incarnation} has attached")

        for connection in list(self._connections.values()):
            if connection.waiting_for is not None and connection.incarnation < incarnation:
                connection.waiting_for = None
                self._answer(connection, refuse)

    def beat(self, now: float) -> None:
        """An empty line, once a second, to those who wait and read."""
        if now - self._last_beat < BEAT_S:
            return
        self._last_beat = now
        for connection in list(self._connections.values()):
            if connection.waiting_for is not None and not connection.to_send:
                self._send(connection, b"\n")

    def close(self) -> None:
        """Send what can be sent, close all, remove the socket and its folder."""
        for connection in list(self._connections.values()):
            connection.sock.settimeout(0.5)
            try:
                connection.sock.sendall(connection.to_send)
            except OSError:
                pass
            connection.sock.close()
        self._socket.close()
        sockets.remove(self._path)
