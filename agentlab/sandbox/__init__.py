"""The sandbox: a process of its own that runs an agent's commands, outlives the harness and never outlives the lab.

:class:`LocalSandboxes` provides real ones (restricted processes: limits, a clean environment and a folder, but no
wall against a hostile command, which runs with the rights of the user). :class:`SimulatedSandboxes` provides the same
contract in memory for simulated crash schedules.
"""

from agentlab.sandbox.killing import continue_sandbox, kill_sandbox, leftovers, reap, stop_sandbox
from agentlab.sandbox.local import LocalSandbox, LocalSandboxes
from agentlab.sandbox.simulated import Outcome, SimulatedSandbox, SimulatedSandboxes
from agentlab.sandbox.spawn import DirectSpawner

__all__ = [
    "DirectSpawner",
    "LocalSandbox",
    "LocalSandboxes",
    "Outcome",
    "SimulatedSandbox",
    "SimulatedSandboxes",
    "continue_sandbox",
    "kill_sandbox",
    "leftovers",
    "reap",
    "stop_sandbox",
]
