"""agentlab: a Jupyter-native bench for long-running LLM agents that must survive crashes.

    %load_ext agentlab
    %agent run sales_report --crash harness@tool_result

or, as Python::

    import agentlab as al

    lab = al.Lab("lab")
    session = lab.run("sales_report")
    session.status()

Importing this package prints nothing, touches no file and loads no library; names below load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentlab.version import __version__

if TYPE_CHECKING:
    from agentlab.analysis import diagnose, frames, plots, report
    from agentlab.authoring import Task, register_task, step, task_names, tool, validator
    from agentlab.calling import effect_key, task_params
    from agentlab.comparing import Latencies, compare, fit, sweep
    from agentlab.definition import Limits, PolicySpec
    from agentlab.errors import AgentlabError, UserError
    from agentlab.explorer import explore
    from agentlab.failures import Bursty, CrashLoop, Deadline, Exponential, Poisson, Times, Weibull
    from agentlab.faults import Fault, Faults, parse_fault
    from agentlab.lab import Lab, Session
    from agentlab.lab.differing import diff
    from agentlab.lab.guarding import guard_findings
    from agentlab.lab.upcasting import upcaster
    from agentlab.models.scripted import ScriptedModel, call, say
    from agentlab.ports import Resources

_HOMES = {
    "AgentlabError": "agentlab.errors",
    "Bursty": "agentlab.failures",
    "CrashLoop": "agentlab.failures",
    "Deadline": "agentlab.failures",
    "Exponential": "agentlab.failures",
    "Fault": "agentlab.faults",
    "Faults": "agentlab.faults",
    "Lab": "agentlab.lab",
    "Latencies": "agentlab.comparing",
    "Limits": "agentlab.definition",
    "Poisson": "agentlab.failures",
    "PolicySpec": "agentlab.definition",
    "Resources": "agentlab.ports",
    "ScriptedModel": "agentlab.models.scripted",
    "Session": "agentlab.lab",
    "Task": "agentlab.authoring",
    "Times": "agentlab.failures",
    "UserError": "agentlab.errors",
    "Weibull": "agentlab.failures",
    "call": "agentlab.models.scripted",
    "diff": "agentlab.lab.differing",
    "compare": "agentlab.comparing",
    "diagnose": "agentlab.analysis",
    "effect_key": "agentlab.calling",
    "explore": "agentlab.explorer",
    "guard_findings": "agentlab.lab.guarding",
    "fit": "agentlab.comparing",
    "frames": "agentlab.analysis",
    "panel": "agentlab.notebook.panel",
    "parse_fault": "agentlab.faults",
    "plots": "agentlab.analysis",
    "register_task": "agentlab.authoring",
    "report": "agentlab.analysis",
    "say": "agentlab.models.scripted",
    "step": "agentlab.authoring",
    "sweep": "agentlab.comparing",
    "task_names": "agentlab.authoring",
    "task_params": "agentlab.calling",
    "tool": "agentlab.authoring",
    "upcaster": "agentlab.lab.upcasting",
    "validator": "agentlab.authoring",
}

__all__ = [
    "AgentlabError",
    "Bursty",
    "CrashLoop",
    "Deadline",
    "Exponential",
    "Fault",
    "Faults",
    "Lab",
    "Latencies",
    "Limits",
    "Poisson",
    "PolicySpec",
    "Resources",
    "ScriptedModel",
    "Session",
    "Task",
    "Times",
    "UserError",
    "Weibull",
    "__version__",
    "call",
    "diff",
    "compare",
    "diagnose",
    "effect_key",
    "explore",
    "guard_findings",
    "fit",
    "frames",
    "load_ipython_extension",
    "panel",
    "parse_fault",
    "plots",
    "register_task",
    "report",
    "say",
    "step",
    "sweep",
    "task_names",
    "task_params",
    "tool",
    "upcaster",
    "unload_ipython_extension",
    "validator",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agentlab' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Register ``%agent`` and ``%%agent`` (called by ``%load_ext agentlab``)."""
    from agentlab.notebook import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take ``%agent`` back (called by ``%unload_ext agentlab``)."""
    from agentlab.notebook import unload

    unload(shell)
