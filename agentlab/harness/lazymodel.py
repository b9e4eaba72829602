"""The session's model, made at its first question: client libraries load after the harness is on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentlab.clock import Clock
from agentlab.definition import Definition
from agentlab.errors import BadDefinition
from agentlab.harness.deadline import model_deadline
from agentlab.harness.hostedmodel import HostedModel
from agentlab.ports import Blobs, LogStore, Model, ModelReply, ModelRequest, ToolHost


class LazyModel:
    """Stands for the model that a definition names until it is asked.

    With a ``toolhost`` and the folder of the blobs, code from a dump runs there; without, in this process (simulation).
    ``store`` holds the sessions that ``recorded:…`` may name.
    """

    def __init__(
        self,
        definition: Definition,
        blobs: Blobs,
        clock: Clock,
        toolhost: ToolHost | None = None,
        blobs_root: str = "",
        store: LogStore | None = None,
    ) -> None:
        self._definition, self._blobs, self._clock = definition, blobs, clock
        self._toolhost, self._blobs_root = toolhost, blobs_root
        self._store = store
        self._model: Model | None = None

    @property
    def name(self) -> str:
        return self._definition.model

    def params(self) -> Mapping[str, Any]:
        return self._definition.model_params

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Ask the model.

        Raises:
            ModelError: no usable answer.
            UserError: it can not be made (no key, no such name).
        """
        if self._model is None:
            self._model = self._make()
        try:
            # A client has a deadline of its own, which ends first; this one is for code that has none.
            with model_deadline(request.timeout_s * 2):
                return self._model.complete(request, on_text)
        except SystemExit as error:
            raise BadDefinition(
                f"the model {self.name} asked to end the process (SystemExit {error.code}): it must answer or raise"
            ) from None

    def _make(self) -> Model:
        from agentlab.models.registry import resolve

        definition = self._definition
        ref = definition.model_ref
        if ref is not None and ref.get("kind") == "dump" and self._toolhost is not None:
            return HostedModel(ref, definition.model, definition.model_params, self._toolhost, self._blobs_root)
        if ref is not None:
            from agentlab.models.scripted import ScriptedModel
            from agentlab.portable import load

            made = load(ref, self._blobs.get)
            if hasattr(made, "complete"):
                model: Model = made
                return model
            return ScriptedModel(made, definition.model, clock=self._clock)
        if self._store is not None and definition.model.startswith("recorded:"):
            from agentlab.harness.recordings import recorded_model

            return recorded_model(definition, self._store, self._clock)
        return resolve(
            definition.model, base_url=definition.base_url, params=definition.model_params, clock=self._clock
        )
