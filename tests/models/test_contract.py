"""Every model keeps the contract; Anthropic's over real HTTP."""

from __future__ import annotations

import pytest

from agentlab.contracts.model import ModelContract, converse, policy, statement_request
from agentlab.models.anthropic import AnthropicModel
from agentlab.models.digest import request_digest
from agentlab.models.recorded import RecordedModel
from agentlab.models.scripted import ScriptedModel


class TestScripted(ModelContract):
    @pytest.fixture
    def model(self) -> ScriptedModel:
        return ScriptedModel(policy)


class TestRecorded(ModelContract):
    @pytest.fixture
    def model(self) -> RecordedModel:
        source = ScriptedModel(policy)
        pairs = [(request_digest(asked), reply) for asked, reply in converse(source)]
        asked = statement_request()
        return RecordedModel([*pairs, (request_digest(asked), source.complete(asked))])


class TestAnthropic(ModelContract):
    @pytest.fixture
    def model(self, claude: AnthropicModel) -> AnthropicModel:
        return claude
