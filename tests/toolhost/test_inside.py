"""Calls inside a real sandbox: what goes in, what comes out, and what is said when nothing comes out."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.clock import SystemClock
from agentlab.log.blobs import BlobFolder
from agentlab.ports import Completed, Resources, ToolInvocation, ToolOutcome
from agentlab.sandbox import DirectSpawner, LocalSandbox, LocalSandboxes
from agentlab.toolhost.outcome import execution_for, result_of
from agentlab.toolhost.wire import RESULT_PREFIX

from .conftest import misbehaving

Run = Callable[..., ToolOutcome]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSandbox]:
    lab = tmp_path_factory.mktemp("lab")
    (lab / "blobs").mkdir()
    spawner = DirectSpawner()
    sandbox = LocalSandboxes(lab, lab / "blobs", spawner, SystemClock()).provision("s", 1, Resources(timeout_s=120.0))
    sandbox.confirm()
    yield sandbox
    sandbox.destroy()
    spawner.close()


@pytest.fixture
def run(sandbox: LocalSandbox, request: pytest.FixtureRequest) -> Run:
    def run(function: str, timeout_s: float = 120.0, **arguments: Any) -> ToolOutcome:
        execution = execution_for(misbehaving(function, timeout_s, **arguments), None)
        return result_of(sandbox.execute(f"{request.node.name}.{function}", execution))

    return run


def test_it_works_in_the_workspace(run: Run, sandbox: LocalSandbox) -> None:
    outcome = run("write_and_list", name="a.txt", text="hello")
    assert outcome.ok and "a.txt" in outcome.value and outcome.stdout == "listing\n"
    assert sandbox.read_file("a.txt") == b"hello"


def test_the_workspace_shadows_nothing(run: Run) -> None:
    assert "json.py" in run("write_and_list", name="json.py", text="raise RuntimeError").value
    assert run("ok").value == "ok"


def test_deaths_and_timeouts(run: Run, tmp_path: Path) -> None:
    segfault, left = run("segfault"), run("leave")
    assert (segfault.kind, segfault.stdout) == ("died", "about to crash\n")
    assert left.kind == "died" and left.message is not None and "exit code 7" in left.message
    hung = run("hang", timeout_s=5.0, pid_file=str(tmp_path / "pids"))
    assert (hung.kind, hung.sent, hung.stdout) == ("timeout", True, "hanging\n")


def test_output_of_all_sorts(run: Run) -> None:
    flooded = run("flood", size=3_000_000)
    assert flooded.value == "flooded" and flooded.stdout.endswith("last")
    assert run("close_output").value == "closed"
    assert run("read_input").value == ""
    assert run("fork_and_return").value == "parent"


def test_a_value_that_the_sandbox_does_not_keep(run: Run) -> None:
    outcome = run("too_large")
    assert (outcome.ok, outcome.kind, outcome.sent) == (False, "garbage", True)
    assert outcome.message is not None and "file" in outcome.message


def test_a_dump_goes_along_as_a_file() -> None:
    digest = hashlib.sha256(b"dump").hexdigest()
    ref = {"kind": "dump", "name": "work", "blob": digest, "digest": "", "python": "3.11", "sys_path": ["/usr"]}
    execution = execution_for(ToolInvocation("c1.1", ref, {"n": 1}, key="k", timeout_s=7, params={"p": 2}), digest)
    assert execution.files == {"@dump": digest} and execution.timeout_s == 7
    request = json.loads(execution.stdin)
    assert (request["ref"], request["arguments"], request["params"]) == (ref, {"n": 1}, {"p": 2})
    assert "/usr" in execution.env["PYTHONPATH"].split(os.pathsep)
    assert execution.argv[0] == sys.executable
    assert execution_for(misbehaving("ok"), digest).files == {}


def test_a_dump_is_verified(sandbox: LocalSandbox) -> None:
    blobs = BlobFolder(os.path.join(os.path.dirname(os.path.dirname(str(sandbox.record["home"]))), "blobs"))
    digest, other = blobs.put(b"no pickle"), hashlib.sha256(b"other").hexdigest()
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    ref = {"kind": "dump", "name": "work", "blob": other, "digest": "", "python": minor, "sys_path": []}
    execution = execution_for(ToolInvocation("c1.1", ref, {}), digest)
    execution.files["@dump"] = digest  # type: ignore[index]
    outcome = result_of(sandbox.execute("dump-verified", execution))
    assert (outcome.ok, outcome.sent) == (False, False)


def completed(
    status: str = "exited", code: int | None = 0, stdout: str = "", stderr: str = "", **rest: Any
) -> Completed:
    return Completed("e", status, code, stdout, stderr, 1500.0, **rest)


@pytest.mark.parametrize(
    ("done", "kind", "sent", "said"),
    [
        (completed("timeout", -9, stderr="working\n"), "timeout", True, "working"),
        (completed("memory", 1), "died", True, "memory"),
        (completed("killed", -9), "died", True, "-9"),
        (completed("failed_to_start", None, stderr="no such file"), "died", False, "no such file"),
        (completed("exited", 1, stderr="ModuleNotFoundError: agentlab"), "died", True, "ModuleNotFoundError"),
        (completed("exited", 0, RESULT_PREFIX + '{"ok":tr', truncated=True), "garbage", True, "file"),
        (completed("exited", 3, RESULT_PREFIX + '{"ok":1}'), "died", True, "exit code 3"),
        (completed("exited", 3, RESULT_PREFIX + "[]"), "died", True, "exit code 3"),
        (completed("exited", 3, RESULT_PREFIX + '{"ok":true,"and":1}'), "died", True, "exit code 3"),
    ],
)
def test_without_a_result(done: Completed, kind: str, sent: bool, said: str) -> None:
    outcome = result_of(done)
    assert (outcome.ok, outcome.kind, outcome.sent) == (False, kind, sent)
    assert outcome.message is not None and said in outcome.message


def test_a_result_counts_whatever_came_after_it() -> None:
    stdout = (
        "a\n" + RESULT_PREFIX + '{"ok":false,"kind":"raised"}\n' + "\n" + RESULT_PREFIX + '{"ok":true,"value":4}\nbye\n'
    )
    outcome = result_of(completed("killed", -11, stdout))
    assert (outcome.ok, outcome.value) == (True, 4) and outcome.stdout.endswith("bye\n")
