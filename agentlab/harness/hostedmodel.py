"""A model that was written in a notebook cell, asked in the tool host: it may hang, crash or leak, and the harness lives.

The harness sends the request as the arguments of :func:`answer`, which runs in the host's process, loads the policy
from the session's dump once, and gives back the reply as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from agentlab.errors import AgentlabError, BadDefinition, ModelError
from agentlab.ports import Model, ModelReply, ModelRequest, ToolHost, ToolInvocation, ToolOutcome, Usage

_ANSWER = {"kind": "dotted", "name": f"{__name__}:answer"}
_loaded: dict[tuple[str, str], Model] = {}


class HostedModel:
    """The model behind ``ref`` (a reference into a dump) as a :class:`~agentlab.ports.Model`.

    ``blobs_root`` is the lab's folder of blobs. Text is streamed when the answer is there.
    """

    def __init__(
        self, ref: Mapping[str, Any], name: str, params: Mapping[str, Any], toolhost: ToolHost, blobs_root: str
    ) -> None:
        self._ref, self._name, self._params = dict(ref), name, params
        self._toolhost, self._blobs_root = toolhost, blobs_root

    @property
    def name(self) -> str:
        return self._name

    def params(self) -> Mapping[str, Any]:
        return self._params

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Ask in the tool host; a policy that does not answer in time is killed with its host.

        Raises:
            ModelError: no usable answer; of kind ``timeout`` or ``connection`` when the policy hung or died.
            BadDefinition: the policy failed, wants to end its process, or can not be loaded.
        """
        arguments = {"ref": self._ref, "name": self._name, "blobs_root": self._blobs_root, "request": asdict(request)}
        invocation = ToolInvocation(f"m.{request.request_id or 'ask'}", _ANSWER, arguments, timeout_s=request.timeout_s)
        outcome = self._toolhost.call(invocation)
        if not outcome.ok:
            raise self._broken(outcome)
        value: Mapping[str, Any] = outcome.value
        if "refused" in value:
            raise BadDefinition(str(value["refused"]))
        if "error" in value:
            raise ModelError(**value["error"])
        reply = ModelReply(**{**value, "usage": Usage(**value["usage"])})
        if on_text is not None:
            for block in reply.content:
                if block.get("type") == "text":
                    on_text(str(block.get("text", "")))
        return reply

    def _broken(self, outcome: ToolOutcome) -> AgentlabError:
        if outcome.kind == "timeout":
            return ModelError("timeout", f"{self._name}: {outcome.message}")
        if outcome.kind == "died":
            return ModelError("connection", f"{self._name}: {outcome.message}")
        if outcome.error_type == "SystemExit":
            return BadDefinition(
                f"the model {self._name} asked to end the process (SystemExit {outcome.message}): it must answer or raise"
            )
        return BadDefinition(f"the model {self._name} failed with {outcome.error_type}: {outcome.message}")


def answer(ref: Mapping[str, Any], name: str, blobs_root: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """One answer of the policy or model behind ``ref``, in this process; what it raises as data."""
    try:
        key = (str(ref.get("blob")), str(ref.get("name")))
        if key not in _loaded:
            _loaded[key] = made(ref, name, blobs_root)
        reply = _loaded[key].complete(ModelRequest(**request))
    except ModelError as error:
        known = {
            "kind": error.kind,
            "message": str(error),
            "status": error.status,
            "retry_after_s": error.retry_after_s,
            "sent": error.sent,
        }
        return {"error": known}
    except AgentlabError as error:
        return {"refused": str(error)}
    return {**asdict(reply), "content": [dict(block) for block in reply.content]}


def made(ref: Mapping[str, Any], name: str, blobs_root: str) -> Model:
    """The model that a reference stands for: an object with ``complete`` as it is, anything else as a policy.

    Raises:
        NotPortable: it can not be loaded here.
    """
    from agentlab.models.scripted import ScriptedModel
    from agentlab.portable import load
    from agentlab.toolhost.wire import blob_path, read_blob

    found = load(ref, lambda digest: read_blob(blob_path(blobs_root, digest), digest))
    if hasattr(found, "complete"):
        model: Model = found
        return model
    return ScriptedModel(found, name)
