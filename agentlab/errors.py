"""The exception tree of agentlab, on one page.

Every message says what happened, where, and what to do next::

    AgentlabError
    ├── UserError                  something the caller can correct; shown as one line, no traceback
    │   ├── UnknownName            a task, tool, model, session or option that does not exist (names near matches)
    │   ├── BadLab                 the lab folder is a file, read-only, full or not a lab
    │   ├── BadSessionId           a session id that is empty, reads as a path, or is longer than a file name can carry
    │   ├── BadDefinition          a task, tool, step or policy that can not be run as declared
    │   ├── NotPortable            a callable that can not travel to another process
    │   ├── NotTrusted             pickled code of another owner; needs ``trust``
    │   ├── NoCredentials          a model that needs a key and has none
    │   └── SessionBusy            a harness of this session is alive; take over or wait
    ├── LogError                   the session log
    │   ├── Conflict               somebody else appended at this seq first
    │   ├── OutcomeUnknown         an append failed after its name may exist: read again, then decide
    │   ├── LogCorrupt             a hash, a gap or a file that does not verify
    │   ├── SchemaTooNew           written by a newer agentlab
    │   └── StorageFailed          disk full, I/O error, read-only: nothing was acknowledged
    ├── PayloadError               a value that canonical JSON can not carry
    ├── Fenced                     a newer incarnation owns the session: this harness must stop
    ├── ModelError                 a model call that failed (a value for the harness, retried within limits)
    ├── SandboxError               the sandbox refused or failed
    │   └── SandboxGone            the sandbox is dead or its folder is gone: provision and restore
    ├── ToolHostError              the tool host died or could not load a callable
    └── CheckpointError            a checkpoint that does not verify
        └── CheckpointTooNew       written under a newer schema_version

``SimulatedDeath`` (in :mod:`agentlab.crashpoints`) is a ``BaseException`` and stands outside this tree:
nothing may catch it as an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AgentlabError(Exception):
    """Root of every error that agentlab raises on purpose."""


class UserError(AgentlabError):
    """Something the caller can correct. The message is complete without a traceback."""


class UnknownName(UserError):
    """A name that does not exist; the message lists the nearest ones that do."""

    def __init__(self, what: str, name: str, known: Iterable[str] = ()) -> None:
        choices = sorted({str(k) for k in known})
        near = difflib.get_close_matches(name, choices, n=3, cutoff=0.5)
        if near:
            hint = "did you mean " + " or ".join(near) + "?"
        elif choices:
            shown = ", ".join(choices[:24]) + (" …" if len(choices) > 24 else "")
            hint = f"known: {shown}"
        else:
            hint = f"there is no {what} yet"
        super().__init__(f"no {what} named {name!r}: {hint}")
        self.what, self.name, self.near = what, name, tuple(near)


class BadLab(UserError):
    """The lab folder can not serve as a lab."""


class BadSessionId(UserError):
    """A session id that can not be encoded as a folder name."""


class BadDefinition(UserError):
    """A task, tool, step, policy or fault that can not be run as it was declared."""


class NotPortable(UserError):
    """A callable that can not travel to the tool host; the message names the culprit."""


class NotTrusted(UserError):
    """Waking would run pickled code that another owner made."""


class NoCredentials(UserError):
    """A model needs a key that is neither in the environment nor given."""


class SessionBusy(UserError):
    """Another harness of this session is alive."""


class LogError(AgentlabError):
    """Root of what can go wrong with the session log."""


class Conflict(LogError):
    """The commit at ``seq`` exists already and is not ours. Nothing was written."""

    def __init__(self, session_id: str, seq: int) -> None:
        super().__init__(
            f"session {session_id!r} already has an event {seq}: another writer was first; read on from {seq} and decide again"
        )
        self.session_id, self.seq = session_id, seq


class OutcomeUnknown(LogError):
    """An append failed after its final name may exist. Re-read that seq before deciding anything."""


class LogCorrupt(LogError):
    """Bytes of the log do not verify; the message names the file or the seq."""


class SchemaTooNew(LogError):
    """A row's schema_version is newer than this agentlab understands."""


class StorageFailed(LogError):
    """The store could not write (disk full, I/O error, read-only). Nothing was acknowledged."""


class PayloadError(AgentlabError):
    """A value that canonical JSON can not carry exactly."""


class Fenced(AgentlabError):
    """A newer incarnation has opened the session: no append, no send, no sandbox call, exit."""


class ModelError(AgentlabError):
    """A model call that gave no usable answer.

    ``kind`` is one of ``rate_limited``, ``overloaded``, ``server``, ``timeout``, ``connection``,
    ``refused``, ``malformed``, ``bad_request``, ``auth``, ``empty``; ``retry_after_s`` is the
    server's wish in seconds or None; ``sent`` is False when surely nothing was spent.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind, self.status, self.retry_after_s, self.sent = kind, status, retry_after_s, sent

    @property
    def retryable(self) -> bool:
        """Whether asking the same again later can help."""
        return self.kind not in ("bad_request", "auth", "refused")


class SandboxError(AgentlabError):
    """The sandbox refused a request or failed to serve it."""


class SandboxGone(SandboxError):
    """The sandbox process is dead or its folder is gone."""


class ToolHostError(AgentlabError):
    """The tool host died, hung past its limit, or could not load a callable."""


class CheckpointError(AgentlabError):
    """A checkpoint that does not verify; the one before it serves."""


class CheckpointTooNew(CheckpointError):
    """A checkpoint of a newer schema_version than this agentlab reads."""


def refusal(error: OSError | ValueError) -> str:
    """Why a file could not be had: the system's words, or that its name can be none (half a surrogate pair, a NUL)."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"no file can have that name ({error})"
