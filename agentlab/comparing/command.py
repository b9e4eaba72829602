"""``compare`` as a command: the options of a line as one comparison."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from agentlab.authoring import task
from agentlab.comparing.api import compare
from agentlab.comparing.compared import Compared
from agentlab.comparing.options import failure_process, policies
from agentlab.comparing.running import default_executor
from agentlab.errors import BadDefinition
from agentlab.lab import Lab
from agentlab.lab.parameters import parameters


def compare_as_asked(
    options: argparse.Namespace,
    task: Any,
    lab: Lab,
    model: Any = None,
    params: Mapping[str, Any] | None = None,
    progress: Any = True,
) -> Compared:
    """The comparison that the options ask for.

    Raises:
        UserError: as :func:`agentlab.comparing.compare`.
    """
    overrides: dict[str, Any] = {"params": dict(params)} if params else {}
    if options.workers is not None and options.workers < 1:
        raise BadDefinition(f"--workers {options.workers}: give the number of processes that run at once, 1 or more")
    executor = default_executor(options.workers) if options.workers else None
    try:
        return compare(
            task, policies(options), tuple(options.scheme) or ("hybrid",), failure_process(options.mtbf, options.faults),
            options.seeds, mode=options.mode, executor=executor, baseline=options.baseline, target=options.target, lab=lab,
            name=options.name, model=model, progress=progress, **overrides,
        )  # fmt: skip
    finally:
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)


def run_compare(options: argparse.Namespace) -> int:
    """``agentlab compare TASK``: 0 when every run was carried out, 1 when one could not be."""
    with Lab(options.lab) as lab:
        what_if = options.mode == "what-if" and options.task in lab.store.sessions()
        subject = options.task if what_if else task(options.task)
        params = parameters(subject, options.param) if options.param and not what_if else None
        found = compare_as_asked(options, subject, lab, options.model, params)
    if options.json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        print(found.text())
    return 1 if found.summary.failed else 0
