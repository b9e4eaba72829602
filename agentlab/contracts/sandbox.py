"""What every :class:`~agentlab.ports.Sandboxes` keeps to. Subclass it in a test module with three fixtures:

``sandboxes`` (the provider), ``blobs`` (the :class:`~agentlab.ports.Blobs` that it reads and writes), ``argv``, which
makes commands of verbs: ``argv("write", path, text)``, ``argv("append", path, text)`` (both print ``ok``),
``argv("show", path)`` (prints a file, or exits with 1), ``argv("exit", "3")`` and ``argv("echo")`` (prints its input).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from agentlab.errors import SandboxError, SandboxGone
from agentlab.ports import Blobs, Execution, Resources, Sandbox, Sandboxes

Argv = Callable[..., Sequence[str]]
LIMITS = Resources(timeout_s=120.0)


class SandboxContract:
    """One test for each sentence of the port."""

    @pytest.fixture
    def sandbox(self, sandboxes: Sandboxes) -> Iterator[Sandbox]:
        sandbox = sandboxes.provision("s", 1, LIMITS)
        sandbox.confirm()
        yield sandbox
        try:
            sandbox.destroy()
        except SandboxError:
            pass  # a test gave it to a higher incarnation, which destroyed it

    def test_a_command_has_an_exit_code_and_output(self, sandbox: Sandbox, argv: Argv) -> None:
        done = sandbox.execute("e1", Execution(argv("echo"), stdin="grüße\n"))
        assert (done.exec_id, done.status, done.exit_code, done.stdout) == ("e1", "exited", 0, "grüße\n")
        assert not done.truncated
        assert sandbox.execute("e2", Execution(argv("exit", "3"))).exit_code == 3

    def test_an_id_runs_once_and_has_one_result(self, sandbox: Sandbox, argv: Argv) -> None:
        first = sandbox.execute("e1", Execution(argv("append", "log.txt", "x")))
        assert sandbox.execute("e1", Execution(argv("append", "log.txt", "y"))) == first
        assert sandbox.read_file("log.txt") == b"x"

    def test_results_are_kept_until_they_are_acknowledged(self, sandbox: Sandbox, argv: Argv) -> None:
        sandbox.execute("e1", Execution(argv("echo")))
        sandbox.execute("e2", Execution(argv("echo")))
        assert list(sandbox.finished()) == ["e1", "e2"]
        sandbox.acknowledge(["e1", "never-heard-of"])
        assert list(sandbox.finished()) == ["e2"]
        sandbox.acknowledge(["e1", "e2"])
        assert list(sandbox.finished()) == []

    def test_what_was_acknowledged_never_runs_again(self, sandbox: Sandbox, argv: Argv) -> None:
        sandbox.execute("e1", Execution(argv("append", "log.txt", "x")))
        sandbox.acknowledge(["e1"])
        with pytest.raises(SandboxError):
            sandbox.execute("e1", Execution(argv("append", "log.txt", "x")))
        assert sandbox.read_file("log.txt") == b"x"

    def test_the_next_harness_takes_the_results(self, sandboxes: Sandboxes, sandbox: Sandbox, argv: Argv) -> None:
        first = sandbox.execute("e1", Execution(argv("append", "log.txt", "x")))
        later = sandboxes.attach(sandbox.record, 2, LIMITS)
        assert later.sandbox_id == sandbox.sandbox_id
        assert list(later.finished()) == ["e1"]
        assert later.execute("e1", Execution(argv("append", "log.txt", "x"))) == first
        later.destroy()

    def test_lower_incarnations_are_refused_everything(
        self, sandboxes: Sandboxes, sandbox: Sandbox, argv: Argv, blobs: Blobs
    ) -> None:
        digest = sandbox.snapshot().digest
        later = sandboxes.attach(sandbox.record, 3, LIMITS)
        text = blobs.put(b"late")
        for late in (
            lambda: sandbox.execute("e1", Execution(argv("write", "a", "late"))),
            lambda: sandbox.put_files({"a": text}),
            lambda: sandbox.restore(digest),
            lambda: sandbox.acknowledge(["e1"]),
            sandbox.finished,
            sandbox.snapshot,
            sandbox.confirm,
            sandbox.destroy,
            lambda: sandboxes.attach(sandbox.record, 2, LIMITS),
        ):
            with pytest.raises(SandboxError) as caught:
                late()
            assert not isinstance(caught.value, SandboxGone)
        with pytest.raises(FileNotFoundError):
            later.read_file("a")
        later.destroy()

    def test_a_snapshot_brings_the_workspace_back(self, sandbox: Sandbox, argv: Argv) -> None:
        sandbox.execute("e1", Execution(argv("write", "a.txt", "one")))
        taken = sandbox.snapshot()
        assert (taken.files, taken.bytes, taken.last_exec_id) == (1, 3, "e1")
        assert taken.new_bytes >= 3
        sandbox.execute("e2", Execution(argv("write", "a.txt", "two")))
        sandbox.execute("e3", Execution(argv("write", "b.txt", "extra")))
        sandbox.restore(taken.digest)
        assert sandbox.read_file("a.txt") == b"one"
        with pytest.raises(FileNotFoundError):
            sandbox.read_file("b.txt")
        again = sandbox.snapshot()
        assert (again.digest, again.new_bytes) == (taken.digest, 0)

    def test_changed_bytes_are_those_that_no_snapshot_holds(self, sandbox: Sandbox, argv: Argv) -> None:
        before = sandbox.changed_bytes()
        sandbox.execute("e1", Execution(argv("write", "a.txt", "one")))
        assert sandbox.changed_bytes() == before + 3
        taken = sandbox.snapshot()
        assert sandbox.changed_bytes() == 0
        sandbox.execute("e2", Execution(argv("write", "b.txt", "twelve")))
        assert sandbox.changed_bytes() == 6
        sandbox.restore(taken.digest)
        assert sandbox.changed_bytes() == 0

    def test_another_sandbox_restores_the_same(self, sandboxes: Sandboxes, sandbox: Sandbox, argv: Argv) -> None:
        sandbox.execute("e1", Execution(argv("write", "a.txt", "one")))
        digest = sandbox.snapshot().digest
        sandbox.destroy()
        other = sandboxes.provision("s", 1, LIMITS)
        other.restore(digest)
        other.confirm()
        assert other.read_file("a.txt") == b"one"
        assert other.execute("e1", Execution(argv("show", "a.txt"))).stdout == "one"
        other.destroy()

    def test_a_bad_snapshot_is_refused(self, sandbox: Sandbox, argv: Argv, blobs: Blobs) -> None:
        sandbox.put_files({"a.txt": blobs.put(b"one")})
        for digest in ("0" * 64, blobs.put(b"no manifest")):
            with pytest.raises(SandboxError):
                sandbox.restore(digest)

    def test_after_a_restore_the_same_ids_may_run(self, sandbox: Sandbox, argv: Argv) -> None:
        digest = sandbox.snapshot().digest
        sandbox.execute("e1", Execution(argv("write", "a.txt", "one")))
        sandbox.acknowledge(["e1"])
        sandbox.restore(digest)
        sandbox.execute("e1", Execution(argv("write", "a.txt", "one")))
        assert sandbox.read_file("a.txt") == b"one"

    def test_files_are_put_from_blobs(self, sandbox: Sandbox, argv: Argv, blobs: Blobs) -> None:
        sandbox.put_files({"deep/er/a.bin": blobs.put(b"\0\xff"), "top.txt": blobs.put(b"hello")})
        assert sandbox.read_file("deep/er/a.bin") == b"\0\xff"
        given = Execution(argv("show", "b.txt"), files={"b.txt": blobs.put(b"given"), "@s.txt": blobs.put(b"scratch")})
        assert sandbox.execute("e1", given).stdout == "given"
        assert sandbox.snapshot().files == 3
        with pytest.raises(SandboxError):
            sandbox.put_files({"c.txt": "0" * 64})

    @pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../out", "", "\0"])
    def test_paths_stay_inside(self, sandbox: Sandbox, argv: Argv, blobs: Blobs, path: str) -> None:
        digest = blobs.put(b"x")
        with pytest.raises(SandboxError):
            sandbox.put_files({path: digest})
        with pytest.raises(SandboxError):
            sandbox.read_file(path)
        with pytest.raises(SandboxError):
            sandbox.execute("e1", Execution(argv("echo"), cwd=path))
        with pytest.raises(SandboxError):
            sandbox.execute("e2", Execution(argv("echo"), files={"@" + path: digest}))
        assert list(sandbox.finished()) == []

    def test_output_is_capped(self, sandboxes: Sandboxes, argv: Argv) -> None:
        sandbox = sandboxes.provision("s", 1, Resources(output_bytes=1000))
        done = sandbox.execute("e1", Execution(argv("echo"), stdin="x" * 5000))
        assert done.truncated
        assert len(done.stdout) <= 1000
        sandbox.destroy()

    def test_destroyed_is_gone(self, sandboxes: Sandboxes, sandbox: Sandbox, argv: Argv) -> None:
        record = sandbox.record
        sandbox.destroy()
        sandbox.destroy()
        with pytest.raises(SandboxGone):
            sandbox.execute("e1", Execution(argv("echo")))
        with pytest.raises(SandboxGone):
            sandboxes.attach(record, 2, LIMITS)

    def test_sandboxes_are_strangers(self, sandboxes: Sandboxes, sandbox: Sandbox, argv: Argv) -> None:
        other = sandboxes.provision("s", 1, LIMITS)
        assert other.sandbox_id != sandbox.sandbox_id
        sandbox.execute("e1", Execution(argv("write", "a.txt", "one")))
        with pytest.raises(FileNotFoundError):
            other.read_file("a.txt")
        other.destroy()
