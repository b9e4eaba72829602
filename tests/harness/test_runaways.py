"""What dies or is lost again and again comes to rest: nothing is restarted, restored or asked for ever."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from agentlab.definition import StepSpec
from agentlab.errors import ModelError
from agentlab.harness.deadline import model_deadline
from agentlab.models.scripted import call, say

from .worlds import Outside, policy, task, world


def losing_world(model, loses):
    made = world(Outside(), model)
    run = made.sandboxes._runner

    def runner(execution, workspace):
        if loses(execution.stdin):
            for name in made.sandboxes.alive():
                made.sandboxes.kill(name)
        return run(execution, workspace)

    made.sandboxes._runner = runner
    return made


def test_a_command_that_takes_its_sandbox_along_is_answered_as_failed_in_the_end():
    def tries(view):
        if view.status.get("step") is None or view.errors_in_a_row("write"):
            return [say("another way"), call("add", a=1, b=2)] if view.status.get("step") else say("done")
        return call("write", text="x")

    made = losing_world(tries, lambda stdin: '"write"' in stdin)
    made.accept(task(steps=(StepSpec("s", tool="add"),), validator=None), "s")
    assert made.run("s") == "ended"
    events = list(made.store.open("s").replay())
    (error,) = [e for e in events if e.type == "tool_error"]
    assert error.payload["kind"] == "sandbox_lost" and "3 times" in error.payload["message"]
    assert sum(1 for e in events if e.type == "sandbox_lost") == 3


def test_a_validator_that_takes_the_sandbox_along_pauses_the_session():
    made = losing_world(policy, lambda stdin: '"written"' in stdin)
    made.accept(task(), "s")
    assert made.run("s") == "paused"
    last = list(made.store.open("s").replay())[-1]
    assert last.payload["reason"] == "sandbox" and "5 times" in last.payload["detail"]


def test_losses_that_are_overcome_are_forgotten():
    lost = iter([True, False, True, False, True, False])
    made = losing_world(policy, lambda stdin: '"write"' in stdin and next(lost, False))
    made.accept(replace(task()), "s")
    assert made.run("s") == "ended"


def test_a_policy_that_hangs_is_interrupted_and_one_that_swallows_everything_too():
    def swallowing():
        while True:
            try:
                time.sleep(60)
            except Exception:
                continue

    for hang in (lambda: time.sleep(60), swallowing):
        with pytest.raises(ModelError) as caught, model_deadline(0.05):
            hang()
        assert caught.value.kind == "timeout"


def test_a_deadline_that_is_kept_leaves_nothing_behind():
    import signal

    before = signal.getsignal(signal.SIGALRM)
    with model_deadline(30):
        pass
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
