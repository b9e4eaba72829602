"""The seams of agentlab: what a log, a model, a sandbox, a tool host and a supervisor are to the harness.

Everything here is a Protocol or a small frozen record that crosses one. Implementations live on floor 3 and
receive each other through these ports; contract suites in ``agentlab.contracts`` hold for every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agentlab.events import Event, Head
from agentlab.evolve import quick

# --- the session log ---------------------------------------------------------------------------------------------

Durability = Literal["disk", "group", "process"]
"""``disk`` survives power loss, ``group`` the same with one fsync for several appends, ``process`` survives SIGKILL."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A checkpoint pointer: a hint, verified against the log before it is believed.

    ``seq`` is the seq of the ``checkpoint_written`` event, ``cursor`` the last seq folded into its state.
    """

    seq: int
    cursor: int
    cursor_hash: str
    state_digest: str


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a fork begins: the session it is forked from, the last event that it shares, and that event's hash."""

    session: str
    seq: int
    hash: str


class Log(Protocol):
    """One session's append-only log. The log is also the lock: of two appends at one seq, one wins.

    A fork's log begins with the events that it shares with its parent; only what comes after them is its own.
    """

    @property
    def session_id(self) -> str: ...

    @property
    def base(self) -> Head:
        """The last event that is shared with a parent; ``Head(0, GENESIS)`` for a session that is no fork."""
        ...

    def append(self, events: Sequence[Event], expected_seq: int) -> None:
        """Make ``events`` (sealed, seq starting at ``expected_seq``, one commit id) durable, all or nothing.

        Returns only after they survive what the session's durability promises.

        Raises:
            Conflict: ``expected_seq`` is taken by another commit (a retry of the same commit id succeeds silently),
                or a segment covers it.
            StorageFailed: nothing was acknowledged and nothing can be found under the final name.
            OutcomeUnknown: the final name may exist; re-read ``expected_seq``.
            ValueError: gaps, a foreign session id, an empty sequence, or mixed commit ids.
        """
        ...

    def flush(self) -> None:
        """Make every append durable as promised; only ``group`` has anything left to do.

        Raises:
            StorageFailed: the disk refused; what was appended since the last flush may be lost with the power.
        """
        ...

    def replay(self, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Event]:
        """Events with ``from_seq <= seq <= to_seq`` in order, as far as the log goes, reading no earlier commit than it must.

        Raises:
            LogCorrupt: a commit that can not be read, or a hole.
            SchemaTooNew: rows of a newer agentlab.
        """
        ...

    def poll(self, head: int) -> Sequence[Event]:
        """Events after ``head``; when there are none, this costs one or two stats and no listing."""
        ...

    def follow(self, from_seq: int, stop: Callable[[], bool], interval_s: float = 0.1) -> Iterator[Event]:
        """Yield events from ``from_seq`` on as they land, until ``stop()``; never lists a folder."""
        ...

    def head(self) -> Head:
        """The newest row; :attr:`base` when there is none of its own."""
        ...

    def put_pointer(self, pointer: Pointer) -> None:
        """Store a checkpoint pointer durably. It is a hint: losing one costs time, not truth."""
        ...

    def pointers(self) -> Sequence[Pointer]:
        """Stored pointers, newest first; unreadable ones are left out."""
        ...

    def seal(self) -> int:
        """Merge commits into a segment, safely at any crash point; returns how many commits were covered."""
        ...


class Blobs(Protocol):
    """Content-addressed bytes. A blob is durable before ``put`` returns."""

    def put(self, data: bytes) -> str:
        """Store ``data`` and return its digest, 64 hexadecimal digits of SHA-256. Storing it again refreshes its age."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes of ``digest``, verified.

        Raises:
            LogCorrupt: missing, or the content does not match.
        """
        ...

    def has(self, digest: str) -> bool: ...


class LogStore(Protocol):
    """All sessions of a lab."""

    @property
    def blobs(self) -> Blobs: ...

    def create(self, session_id: str, durability: Durability = "disk", parent: Parent | None = None) -> Log:
        """A log for a new session; with ``parent`` one that shares the parent's events up to ``parent.seq``.

        Raises:
            UserError: the id exists already or can not be encoded.
            BadLab, StorageFailed: the lab can not take it.
        """
        ...

    def open(self, session_id: str) -> Log:
        """The log of an existing session.

        Raises:
            UnknownName: no such session (near matches in the message).
        """
        ...

    def sessions(self) -> Sequence[str]:
        """Ids of all sessions, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """A session's claim on an effect that happens once per content. Of several the one with the highest number counts."""

    session_id: str
    seq: int
    number: int


class EffectClaims(Protocol):
    """An index, derived from the logs of a lab, of which session has an effect whose key is its content alone."""

    def built(self) -> bool:
        """Whether the index exists; when not, it is to be built from the logs."""
        ...

    def build(self, claims: Mapping[str, Sequence[Claim]]) -> None:
        """Make the index from what the logs say."""
        ...

    def held(self, key: str) -> tuple[Claim, ...]:
        """All claims on an effect, the oldest first: the last one counts, and any of the others may have done it."""
        ...

    def take(self, key: str, claim: Claim) -> bool:
        """Put a claim in place durably; False when somebody has one of that number already.

        Raises:
            StorageFailed: it could not be written.
        """
        ...


# --- models --------------------------------------------------------------------------------------------------------

Purpose = Literal["act", "statement", "summary", "judge"]


@quick
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is asked, in Anthropic's content blocks.

    ``system`` is a list of text blocks (with ``cache_control`` where a prompt cache may cut), ``tools`` a list of
    ``{name, description, input_schema}``, ``messages`` alternating user and assistant messages whose tool_use and
    tool_result blocks pair.
    """

    system: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]]
    max_tokens: int = 4096
    purpose: Purpose = "act"
    params: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""
    timeout_s: float = 600.0
    digest: str = ""
    """What :func:`agentlab.models.digest.request_digest` gives for this request, where it is known already."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer: content blocks (``text``, ``tool_use``, ``thinking`` …), why it stopped, what it cost."""

    content: Sequence[Mapping[str, Any]]
    stop_reason: str
    usage: Usage
    model: str
    request_id: str | None = None


class Model(Protocol):
    """A language model, or something that answers like one."""

    @property
    def name(self) -> str:
        """The name it was chosen by, e.g. ``anthropic:claude-sonnet-4-5`` or ``scripted:pkg.mod:policy``."""
        ...

    def params(self) -> Mapping[str, Any]:
        """Parameters that belong to the baseline (temperature, max_tokens …). Never a key."""
        ...

    def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Ask once; no retry inside. ``on_text`` gets streamed text as it comes.

        Raises:
            ModelError: no usable answer; its ``kind`` says whether asking again can help.
        """
        ...


# --- sandbox -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of a sandbox: wall seconds and memory bytes per execution, output bytes kept per stream."""

    timeout_s: float = 120.0
    memory_bytes: int | None = None
    output_bytes: int = 1 << 20
    cpu_s: float | None = None
    network: bool = True
    """False asks for no network; only a sandbox of stronger isolation can promise it."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One command for a sandbox.

    ``argv`` runs without a shell in ``cwd`` (relative to the workspace) with ``stdin`` as text; ``files`` maps
    paths to blob digests that are put in place before it starts: a relative path is inside the workspace, a path
    beginning with ``@`` is in the execution's own scratch folder, whose path the command finds in
    ``AGENTLAB_SCRATCH``.
    """

    argv: Sequence[str]
    cwd: str = "."
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """How an execution ended. ``status`` is ``exited``, ``timeout``, ``memory``, ``killed`` or ``failed_to_start``."""

    exec_id: str
    status: str
    exit_code: int | None
    stdout: str
    stderr: str
    duration_ms: float
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workspace packed to a reference: the digest of its manifest (a blob naming every file's blob)."""

    digest: str
    files: int
    bytes: int
    new_bytes: int
    last_exec_id: str | None


class Sandbox(Protocol):
    """A consumable place to run commands. It outlives the harness and never outlives the lab."""

    @property
    def sandbox_id(self) -> str: ...

    @property
    def record(self) -> Mapping[str, Any]:
        """What another harness needs to take it up again (host, boot_id, pid, start_time, address …), as JSON."""
        ...

    def confirm(self) -> None:
        """The log has this sandbox's record. A fresh one that nobody confirms ends itself after about half a minute."""
        ...

    def execute(self, exec_id: str, execution: Execution) -> Completed:
        """Run ``execution`` unless ``exec_id`` ran or runs already; wait and return its one result.

        Raises:
            SandboxGone: the sandbox died before or while it ran.
            SandboxError: it refused (a lower incarnation, a bad path).
        """
        ...

    def finished(self) -> Sequence[str]:
        """Ids of executions whose results are kept and not yet acknowledged."""
        ...

    def acknowledge(self, exec_ids: Sequence[str]) -> None:
        """The log has these results; they may be forgotten."""
        ...

    def changed_bytes(self) -> int:
        """Bytes of the files that are not as the newest snapshot taken or restored here holds them; nothing is read."""
        ...

    def snapshot(self) -> Snapshot:
        """Pack the workspace into blobs, only while nothing runs; the manifest is durable last."""
        ...

    def restore(self, digest: str) -> None:
        """Make the workspace equal to a snapshot (before the first execution, or in place of what is there)."""
        ...

    def put_files(self, files: Mapping[str, str]) -> None:
        """Place blobs into the workspace: relative path to digest."""
        ...

    def read_file(self, path: str) -> bytes:
        """A file of the workspace; ``FileNotFoundError`` when it is not there."""
        ...

    def destroy(self) -> None:
        """End it, delete its folder, reap it. Idempotent."""
        ...


class Sandboxes(Protocol):
    """A provider of sandboxes."""

    def provision(self, session_id: str, incarnation: int, resources: Resources) -> Sandbox:
        """A fresh, empty, attached sandbox. It ends itself unless :meth:`Sandbox.execute` or a confirm follows soon.

        Raises:
            SandboxError: none could be had.
        """
        ...

    def attach(self, record: Mapping[str, Any], incarnation: int, resources: Resources) -> Sandbox:
        """Take up a living sandbox by its record; it refuses incarnations lower than the highest it has seen.

        Raises:
            SandboxGone: dead, foreign host, or its start time does not match.
            SandboxError: a higher incarnation has attached.
        """
        ...


# --- tool host -----------------------------------------------------------------------------------------------------


@quick
@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One call of a user's callable: ``ref`` is a callable reference, ``arguments`` its keyword arguments.

    ``key`` is the idempotency key that an external tool may pass on (as its parameter ``idempotency_key`` or through
    ``agentlab.effect_key()``); ``params`` are the task's parameters (``agentlab.task_params()``).
    """

    call_id: str
    ref: Mapping[str, Any]
    arguments: Mapping[str, Any]
    key: str | None = None
    timeout_s: float = 60.0
    params: Mapping[str, Any] = field(default_factory=dict)
    misdeed: tuple[str, float] | None = None
    """How the tool is to misbehave in this call, by an injected fault; None for a call as it should be."""


@quick
@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a callable gave: ``value`` as plain JSON when ``ok``, else an error type, message and traceback text.

    ``kind`` is ``raised``, ``timeout``, ``died`` (the host process ended) or ``garbage`` (no JSON value).
    ``sent`` is False when the callable surely never began.
    """

    ok: bool
    value: Any = None
    kind: str | None = None
    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None
    stdout: str = ""
    stderr: str = ""
    duration_ms: float = 0.0
    sent: bool = True


class ToolHost(Protocol):
    """Runs users' callables in a child process that can be killed."""

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        """Run one callable; a failure of any kind is a value. A hung one is killed, and its death awaited.

        Raises:
            ToolHostError: the host can not be started at all.
        """
        ...

    def close(self) -> None:
        """Kill the child and await its death. Idempotent."""
        ...


# --- the lab's queue -------------------------------------------------------------------------------------------------


class Queue(Protocol):
    """A session's end of the queue for places: a lab runs at most so many sessions at once."""

    def ask(self) -> int:
        """Take a place if one is free for this session: 0. Else its place in the queue, counted from 1.

        Raises:
            StorageFailed, LogCorrupt: the pool's log can not be used.
        """
        ...

    def rest(self) -> None:
        """Give the place back. A ticket keeps its number and is passed over until the session asks again."""
        ...


# --- the lab's budget -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a pool has set aside for a session, in all and per dimension; ``refused`` names the one that has too little."""

    allotted: Mapping[str, int]
    refused: str = ""


class Pool(Protocol):
    """A session's end of the budget that the sessions of a lab share."""

    def join(self, incarnation: int, committed: Callable[[str], int]) -> Mapping[str, int] | None:
        """Draw on the pool from now on; what is set aside already, per limited dimension. None when nothing is limited.

        ``committed`` is what the session has used or reserved: what it spent before it joined is not the pool's.

        Raises:
            Fenced: a newer incarnation draws.
            StorageFailed, LogCorrupt: the pool's log can not be used.
        """
        ...

    def draw(self, reservation: str, incarnation: int, least: Mapping[str, int], wished: Mapping[str, int]) -> Drawn:
        """Set aside ``least`` in all, up to ``wished`` where there is more; in every dimension or in none.

        Raises as :meth:`join`.
        """
        ...

    def pace(self, names: Sequence[str]) -> int:
        """Count a send towards the quotas of ``names`` and return 0, or when it would be within them (µs, UTC)."""
        ...

    def give_back(self, reservation: str, incarnation: int, allotted: Mapping[str, int], *, closed: bool) -> None:
        """Keep only ``allotted``; with ``closed`` the session draws no more. Raises as :meth:`join`."""
        ...


# --- supervisor ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """Which process, beyond doubt: pids are reused, start times are not."""

    host: str
    boot_id: str
    pid: int
    start_time: str

    def to_json(self) -> dict[str, Any]:
        return {"host": self.host, "boot_id": self.boot_id, "pid": self.pid, "start_time": self.start_time}


class Spawner(Protocol):
    """Starts child processes so that they outlive the asker but never the owner (the keeper does)."""

    def spawn(
        self, kind: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, log_path: str | None
    ) -> ProcessRecord:
        """Start ``argv`` in its own process group; ``kind`` is ``sandbox`` or ``toolhost``."""
        ...
