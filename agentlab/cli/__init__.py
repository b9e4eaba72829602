"""The command line: the same verbs as in a notebook, thin."""

from __future__ import annotations

import io
import os
import sys

from agentlab.errors import AgentlabError


def main(argv: list[str] | None = None) -> int:
    """``agentlab VERB …``; returns the exit code: 0 good, 1 not as promised, 2 wrong usage or refused."""
    from agentlab.cli.parser import build_parser

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # marks that a terminal's encoding lacks must not end a run
            stream.reconfigure(errors="replace")
    options = build_parser().parse_args(argv)
    _find_modules_here(str(getattr(options, "task", "")))
    try:
        code: int = options.action(options)
        return code
    except AgentlabError as error:
        print(f"agentlab: {error}", file=sys.stderr)
        return 2
    except TimeoutError as error:
        print(f"agentlab: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output left; nothing to say to it
        sys.stderr.close()
        return 1
    except OSError as error:
        print(
            f"agentlab: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        return 130


def _find_modules_here(task: str) -> None:
    """The module that a task's name may say is found from where one stands, as with ``python -m``; installed ones first."""
    if ":" not in task and "." not in task:
        return
    try:
        here = os.getcwd()
    except OSError:  # a folder that was deleted holds no module either
        return
    if here not in sys.path:
        sys.path.append(here)
