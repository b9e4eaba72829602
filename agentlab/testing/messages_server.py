"""A small local server that speaks the Messages API and can misbehave on demand.

    with MessagesServer(policy) as server:
        server.add(rate_limited(retry_after=2), cut_after(300))      # the next two requests
        model = AnthropicModel("claude-test", api_key=server.key, base_url=server.url)

or ``python -m agentlab.testing.messages_server --port 0``, which prints its address. It answers with a model of
agentlab's (a :class:`~agentlab.models.scripted.ScriptedModel` for instance) or with a function from the request's
body to content blocks, refuses conversations that the API would refuse, and remembers what it was asked, without
the key.
"""

from __future__ import annotations

import argparse
import http.server
import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentlab.errors import AgentlabError, ModelError
from agentlab.models.policy_names import load_policy
from agentlab.models.scripted import ScriptedModel, say
from agentlab.models.tokens import estimate_tokens
from agentlab.models.view import View
from agentlab.ports import Model, ModelReply
from agentlab.testing.messages_faults import ERROR_TYPES, Fault, parse_fault
from agentlab.testing.messages_rules import as_request, has_key, problem_with
from agentlab.testing.messages_wire import as_error, encode, misbehaved, with_fault

LOCAL_KEY = "local-key"
_KEY_HEADERS = ("x-api-key", "authorization")
_STATUS = {"rate_limited": 429, "overloaded": 529, "auth": 401, "bad_request": 400, "timeout": 504}

Answerer = Model | Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Asked:
    """A request that came in. ``headers`` are in lower case, the key's value is not among them."""

    path: str
    headers: Mapping[str, str]
    body: Any
    right_key: bool
    fault: str | None
    status: int


class MessagesServer:
    """The server, in threads of this process. ``key`` is the one it wants; ``port`` 0 takes a free one.

    ``requests`` lists what came, oldest first; :meth:`add` queues faults, one per request to ``/v1/messages``.
    """

    def __init__(self, answer: Answerer, key: str = LOCAL_KEY, host: str = "127.0.0.1", port: int = 0) -> None:
        self.key = key
        self.requests: list[Asked] = []
        self.stopping = threading.Event()
        self._answer = answer
        self._faults: deque[Fault] = deque()
        self._lock = threading.Lock()
        self._count = 0
        owner = self

        class Bound(_Handler):
            server_of = owner

        self._http = _Http((host, port), Bound)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """``http://host:port``, the base address for a client."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def add(self, *faults: Fault) -> None:
        """Queue faults for the requests to come."""
        with self._lock:
            self._faults.extend(faults)

    def start(self) -> MessagesServer:
        """Serve in a thread of its own, from now until :meth:`stop`."""
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, name="messages-server", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving; requests that hang are let go. Idempotent."""
        self.stopping.set()
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
        self._http.server_close()

    def __enter__(self) -> MessagesServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def next_fault(self) -> Fault | None:
        """Take the next queued fault, if there is one."""
        with self._lock:
            return self._faults.popleft() if self._faults else None

    def remember(self, asked: Asked) -> None:
        """Keep a record of a request."""
        with self._lock:
            self.requests.append(asked)

    def reply(self, body: Mapping[str, Any]) -> tuple[str, ModelReply]:
        """A message id and the answer to ``body``, which has passed :func:`problem_with`.

        Raises:
            AgentlabError: what the answering model raised.
        """
        with self._lock:
            self._count += 1
            message_id = f"msg_{self._count:06d}"
        request = as_request(body)
        model = self._answer
        if not hasattr(model, "complete"):
            answer: Callable[[Mapping[str, Any]], Any] = model
            model = ScriptedModel(lambda view: answer(body), name=str(body["model"]))
            request = replace(request, purpose="act")  # the function alone answers
        return message_id, replace(model.complete(request), model=str(body["model"]))


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that hangs up is what faults are for
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of: MessagesServer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: whoever runs the server reads ``requests``."""

    def do_POST(self) -> None:
        owner = self.server_of
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self._body(headers)
        right_key = has_key(headers, owner.key)
        path = self.path.partition("?")[0].rstrip("/")
        fault = owner.next_fault() if path == "/v1/messages" and right_key else None
        shown = {name: "***" if name in _KEY_HEADERS else value for name, value in headers.items()}
        status, payload = self._decide(path, body, headers, right_key, fault)
        asked = Asked(path, shown, body, right_key, fault.kind if fault else None, status)
        owner.remember(asked)
        try:
            if fault is not None and fault.kind == "hang" and fault.after == 0:
                owner.stopping.wait()
                self._drop()
            elif status == 200 and isinstance(body, dict) and body.get("stream") and path == "/v1/messages":
                self._stream(payload, fault)
            else:
                self._plain(status, payload, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _body(self, headers: Mapping[str, str]) -> Any:
        data = self.rfile.read(int(headers.get("content-length", "0") or 0))
        try:
            return json.loads(data)
        except ValueError:
            return None

    def _decide(
        self, path: str, body: Any, headers: Mapping[str, str], right_key: bool, fault: Fault | None
    ) -> tuple[int, dict[str, Any]]:
        if not right_key:
            return 401, as_error("authentication_error", "invalid key")
        if path not in ("/v1/messages", "/v1/messages/count_tokens"):
            return 404, as_error("not_found_error", f"no such path: {path}")
        if path.endswith("count_tokens") and isinstance(body, dict):
            body = {"max_tokens": 1, **body}
        problem = problem_with(body, headers)
        if problem is not None:
            return 400, as_error("invalid_request_error", problem)
        if path.endswith("count_tokens"):
            return 200, {"input_tokens": estimate_tokens(as_request(body))}
        if fault is not None and fault.kind == "http_error":
            return fault.status, as_error(fault.error_type, fault.text)
        try:
            message_id, reply = self.server_of.reply(body)
        except ModelError as error:
            status = error.status or _STATUS.get(error.kind, 500)
            return status, as_error(ERROR_TYPES.get(status, "api_error"), str(error))
        except AgentlabError as error:
            return 500, as_error("api_error", str(error))
        return 200, misbehaved(reply, message_id, fault)

    def _plain(self, status: int, payload: Mapping[str, Any], fault: Fault | None) -> None:
        data = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self._common(fault if fault is not None and fault.kind == "http_error" else None)
        if fault is not None and fault.kind == "cut":
            self.wfile.write(data[: fault.after])
            self._drop()
        else:
            self.wfile.write(data)

    def _stream(self, message: Mapping[str, Any], fault: Fault | None) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        if fault is not None and fault.clean:
            self.send_header("connection", "close")  # else the client's next request may meet the closing
        self._common(None)
        left = fault.after if fault is not None and fault.kind == "cut" else None
        for event in with_fault(message, fault):
            if event is None:  # the place where a hang begins
                self.server_of.stopping.wait()
                self._drop()
                return
            if fault is not None and fault.delay_s:
                self.server_of.stopping.wait(fault.delay_s)
            data = event if isinstance(event, bytes) else encode(event)
            cut = left is not None and len(data) > left
            self._chunk(data[:left] if cut else data)
            if cut:
                if fault is not None and fault.clean:
                    self.wfile.write(b"0\r\n\r\n")
                self._drop()
                return
            left = None if left is None else left - len(data)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:  # an empty chunk would end the body
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _common(self, fault: Fault | None) -> None:
        self.send_header("request-id", f"req_{len(self.server_of.requests):06d}")
        for name, value in (fault.headers if fault is not None else {}).items():
            self.send_header(name, value)
        self.end_headers()

    def _drop(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the client was first


def echo(view: View) -> Any:
    """The policy of a server that was given none: say what was said, or that a tool was answered."""
    return say(f"you said: {view.text[:200] or 'nothing'}") if view.last is None else say("done")


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted; the first line printed is the address."""
    parser = argparse.ArgumentParser(prog="python -m agentlab.testing.messages_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--policy", help="package.module:function of a scripted policy")
    parser.add_argument("--key", default=LOCAL_KEY, help=f"the key to accept (default {LOCAL_KEY})")
    parser.add_argument("--fault", action="append", default=[], type=parse_fault, help="e.g. 429:3, cut:200, hang")
    chosen = parser.parse_args(argv)
    policy = load_policy(chosen.policy) if chosen.policy else echo
    server = MessagesServer(ScriptedModel(policy), chosen.key, chosen.host, chosen.port)
    server.add(*chosen.fault)
    with server:
        print(server.url, flush=True)
        try:
            server.stopping.wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
