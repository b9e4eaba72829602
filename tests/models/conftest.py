from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from agentlab.contracts.model import policy
from agentlab.models.anthropic import AnthropicModel
from agentlab.models.scripted import ScriptedModel
from agentlab.testing.messages_server import MessagesServer

KEY = "sk-ant-test-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[MessagesServer]:
    with MessagesServer(ScriptedModel(policy), key=KEY) as running:
        yield running


@pytest.fixture
def claude(server: MessagesServer) -> Iterator[AnthropicModel]:
    model = AnthropicModel("claude-test", api_key=KEY, base_url=server.url)
    yield model
    model.close()


@pytest.fixture(autouse=True)
def no_credentials_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path_factory.mktemp("no-profiles")))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def answering() -> Iterator[Callable[..., AnthropicModel]]:
    """``answering(function)``: an AnthropicModel on a server of its own that answers with ``function(body)``."""
    servers: list[MessagesServer] = []
    models: list[AnthropicModel] = []

    def make(answer: object, **options: object) -> AnthropicModel:
        running = MessagesServer(answer, key=KEY).start()  # type: ignore[arg-type]
        servers.append(running)
        model = AnthropicModel("claude-test", api_key=KEY, base_url=running.url, **options)  # type: ignore[arg-type]
        models.append(model)
        return model

    yield make
    for model in models:
        model.close()
    for running in servers:
        running.stop()
