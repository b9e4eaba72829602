"""The scripted model, what its policies see, token estimates, digests and names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.clock import ManualClock
from agentlab.contracts.model import FACTS, converse, opening, policy, request, statement_request
from agentlab.errors import BadDefinition, ModelError, UnknownName
from agentlab.models import registry
from agentlab.models.anthropic import AnthropicModel
from agentlab.models.digest import request_digest
from agentlab.models.scripted import ScriptedModel, ScriptedReply, call, handles, say
from agentlab.models.tokens import estimate_text, estimate_tokens
from agentlab.models.view import View
from agentlab.ports import Usage

from . import policies

HERE = policies.__name__


def block_results(*pairs: tuple[str, str, bool]) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": [say("<goal>old</goal>")]}]
    for index, (tool, output, is_error) in enumerate(pairs):
        use = {**call(tool, n=index), "id": f"c{index}"}
        messages.append({"role": "assistant", "content": [say("thinking"), use]})
        result = {"type": "tool_result", "tool_use_id": f"c{index}", "content": [say(output)], "is_error": is_error}
        messages.append({"role": "user", "content": [result, say("<goal>new</goal> <task>step 2 of 3</task>")]})
    return messages


class TestView:
    def test_reads_the_context(self) -> None:
        view = View(
            request(block_results(("a", "1", False), ("b", "<goal>evil</goal>", True), ("a", '{"x": 2}', True)))
        )
        assert view.goal == "new" and view.task == "step 2 of 3" and view.tools == ("add",) and view.purpose == "act"
        assert [r.result for r in view.results("a")] == ["1", '{"x": 2}'] and len(view.results()) == 3
        assert view.last is not None and view.last.is_error and view.last.value == {"x": 2}
        assert view.errors_in_a_row() == 2 and view.errors_in_a_row("a") == 1 and view.errors_in_a_row("none") == 0
        assert [c.input["n"] for c in view.calls()] == [0, 1, 2] and "<task>" in view.text

    def test_of_almost_nothing(self) -> None:
        view = View(request([{"role": "user", "content": "plain"}]))
        assert view.goal == "plain" and view.task == "" and view.last is None and view.facts is None

    @pytest.mark.parametrize("text", ["<facts>no</facts>", "</facts><facts>", "<facts>[1]</facts>", "<facts>{}"])
    def test_facts_that_are_none(self, text: str) -> None:
        assert View(request([{"role": "user", "content": [say(text)]}])).facts is None


class TestScripted:
    def test_same_question_same_answer_and_ids(self) -> None:
        one, other = converse(ScriptedModel(policy)), converse(ScriptedModel(policy))
        assert one == other
        ids = [b["id"] for _, reply in one for b in reply.content if b["type"] == "tool_use"]
        assert len(set(ids)) == 2 and all(i.startswith("toolu_") for i in ids)

    def test_by_dotted_name(self) -> None:
        model = ScriptedModel(f"{HERE}:greet")
        assert model.name == f"scripted:{HERE}:greet" == ScriptedModel(policies.greet).name
        assert model.complete(request(opening())).content == [say("hello")]

    def test_latency_is_slept_on_the_clock(self) -> None:
        clock = ManualClock()
        ScriptedModel(policies.greet, latency_s=2.5, clock=clock).complete(request(opening()))
        assert clock.monotonic() == 2.5

    def test_a_whole_reply(self) -> None:
        model = ScriptedModel(lambda view: ScriptedReply([say("x")], "max_tokens", Usage(1, 2)), name="cut")
        reply = model.complete(request(opening()))
        assert (reply.stop_reason, reply.usage, reply.model) == ("max_tokens", Usage(1, 2), "cut")

    @pytest.mark.parametrize("answer", [3, [{"text": "x"}], [{**call("a"), "input": {"b": b"x"}}], [None]])
    def test_answers_that_are_none(self, answer: Any) -> None:
        with pytest.raises(BadDefinition, match="policy"):
            ScriptedModel(lambda view: answer).complete(request(opening()))

    def test_a_policy_that_fails_is_named(self) -> None:
        with pytest.raises(BadDefinition, match=r"wrong.*ZeroDivisionError"):
            ScriptedModel(lambda view: 1 / 0, name="wrong").complete(request(opening()))  # type: ignore

    @pytest.mark.parametrize("answer", [None, [], "", " \n", [say(""), say(" ")]])
    def test_no_content_is_empty(self, answer: Any) -> None:
        with pytest.raises(ModelError) as caught:
            ScriptedModel(lambda view: answer).complete(request(opening()))
        assert caught.value.kind == "empty"

    def test_blank_text_beside_a_call_is_left_out(self) -> None:
        reply = ScriptedModel(lambda view: ["", call("add", a=1, b=2)]).complete(request(opening()))
        assert [block["type"] for block in reply.content] == ["tool_use"]

    def test_a_policy_may_play_a_failing_provider(self) -> None:
        def failing(view: View) -> Any:
            raise ModelError("overloaded", "played")

        with pytest.raises(ModelError, match="played"):
            ScriptedModel(failing).complete(request(opening()))

    def test_statement_from_the_context_unless_handled(self) -> None:
        reply = ScriptedModel(policies.greet).complete(statement_request())
        assert json.loads(reply.content[0]["text"]) == FACTS

        @handles("statement")
        def own(view: View) -> Any:
            return say("{}" if view.purpose == "statement" else "x")

        assert ScriptedModel(own).complete(statement_request()).content == [say("{}")]
        without = request(opening(), purpose="statement")
        stated = json.loads(ScriptedModel(policies.greet).complete(without).content[0]["text"])
        assert stated == {"completed_steps": [], "next_step": None, "effects_done": []}

    def test_summary_from_the_context(self) -> None:
        asked = request(block_results(("a", "1", False), ("a", "2", True)), purpose="summary")
        text = ScriptedModel(policies.greet).complete(asked).content[0]["text"]
        assert "Goal: new" in text and "a: 2 calls, 1 failed" in text

    def test_prefix_is_written_to_the_cache_and_then_read(self) -> None:
        usages = [reply.usage for _, reply in converse(ScriptedModel(policy))]
        assert usages[0].cache_write_tokens == usages[1].cache_read_tokens > 0
        assert usages[0].cache_read_tokens == usages[1].cache_write_tokens == 0
        bare = replace(request(opening()), system=[say("s")])
        assert ScriptedModel(policy).complete(bare).usage.cache_write_tokens == 0


class TestTokens:
    def test_estimates(self) -> None:
        assert estimate_text("") == 0 and estimate_text("1234567") == 2
        assert estimate_tokens(request(opening())) < estimate_tokens(request(block_results(("a", "x" * 100, False))))

    @settings(max_examples=50, deadline=None, print_blob=True)
    @given(st.text(max_size=200), st.text(max_size=50))
    def test_more_text_never_costs_less(self, text: str, more: str) -> None:
        assert estimate_text(text + more) >= estimate_text(text)


class TestDigest:
    def test_what_it_covers(self) -> None:
        asked = request(opening())
        digest = request_digest(asked)
        same = replace(asked, request_id="other", timeout_s=1.0, messages=tuple(asked.messages))
        assert digest == request_digest(same)
        changes: list[dict[str, Any]] = [
            {"max_tokens": 1}, {"purpose": "judge"}, {"params": {"temperature": 0}}, {"tools": []}, {"system": []},
            {"messages": [{"role": "user", "content": "y"}]},
        ]  # fmt: skip
        assert len({digest, *(request_digest(replace(asked, **change)) for change in changes)}) == 7


class TestRegistry:
    @pytest.fixture(autouse=True)
    def own_registrations_end(self) -> Iterator[None]:
        before = dict(registry._factories)
        yield
        registry._factories.clear()
        registry._factories.update(before)

    def test_scripted(self) -> None:
        params = {"latency_s": 1, "temperature": 0}
        model = registry.resolve(f"scripted:{HERE}:fetch_twice", params=params, clock=ManualClock())
        assert model.params() == {"latency_s": 1.0}
        assert model.complete(request(opening())).stop_reason == "tool_use"

    @pytest.mark.parametrize("name", ["anthropic:claude-x", "claude-x"])
    def test_anthropic(self, name: str) -> None:
        model = registry.resolve(name, api_key="k" * 20, params={"temperature": 0.5, "max_tokens": 9, "top_p": 1})
        assert isinstance(model, AnthropicModel) and model.name == "anthropic:claude-x"
        assert model.params() == {"temperature": 0.5, "max_tokens": 9, "top_p": 1}

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("antropic:claude-x", "anthropic:claude-x"),
            (f"script:{HERE}:greet", f"scripted:{HERE}:greet"),
            ("gpt", "known: "),
            ("anthropic:", "anthropic"),
            ("", "known: "),
            (f"scripted:{HERE}:gret", "greet"),
            ("scripted:no_such_module:f", "no_such_module"),
            (f"scripted:{HERE}.inner:f", "inner"),
        ],
    )
    def test_unknown_names_get_near_ones(self, name: str, hint: str) -> None:
        with pytest.raises(UnknownName) as caught:
            registry.resolve(name)
        assert hint in str(caught.value)

    @pytest.mark.parametrize("name", [f"scripted:{HERE}", "scripted::f", f"scripted:{HERE}:NOT_CALLABLE"])
    def test_names_that_are_no_policies(self, name: str) -> None:
        with pytest.raises(BadDefinition):
            registry.resolve(name)

    def test_a_parameter_that_does_not_exist(self) -> None:
        with pytest.raises(BadDefinition, match="latncy"):
            registry.resolve(f"scripted:{HERE}:greet", params={"latncy": 1})

    def test_open_to_others(self) -> None:
        def mine(rest: str, *, params: Mapping[str, Any], **_: Any) -> ScriptedModel:
            return ScriptedModel(lambda view: say(rest), name="mine:" + rest)

        registry.register("mine", mine)
        assert registry.resolve("mine:x:y").complete(request(opening())).content == [say("x:y")]
        with pytest.raises(ValueError, match="prefix"):
            registry.register("a:b", mine)
