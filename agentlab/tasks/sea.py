"""The sea table: decades of El Niño sea surface temperatures, averaged and reported on."""

from __future__ import annotations

from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.models.scripted import call, say
from agentlab.models.view import View
from agentlab.tasks import table_tools
from agentlab.tasks.data import dataset_path


def policy(view: View) -> Any:
    """Calls the current step's tool; says where the report is when nothing is left."""
    current = view.status.get("step")
    if current is None:
        return say(f"The report is in {table_tools.REPORT}.")
    name, arguments = CALLS[current]
    return [say(f"Step {current} needs {name}."), call(name, **arguments)]


CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "load": ("load_table", {"source": table_tools.TABLE}),
    "aggregate": ("aggregate", {"source": table_tools.TABLE, "target": table_tools.AVERAGES}),
    "report": ("write_report", {"source": table_tools.AVERAGES, "target": table_tools.REPORT}),
    "check": ("check_report", {"report": table_tools.REPORT, "source": table_tools.TABLE}),
}

TASK = Task(
    name="sea_table",
    goal="Average the sea surface temperatures by decade and write a short report that agrees with the table.",
    constraints=("Every number in the report comes from the table.",),
    files={table_tools.TABLE: dataset_path(table_tools.TABLE)},
    tools=(
        tool(table_tools.load_table, effect="sandboxed", kind="query"),
        tool(table_tools.aggregate, effect="sandboxed", kind="query"),
        tool(table_tools.write_report, effect="sandboxed", kind="code"),
        tool(table_tools.check_report, effect="sandboxed", kind="query"),
    ),
    steps=(
        step("load", "Read and check the table", kind="query", tool="load_table"),
        step("aggregate", "Average by decade", kind="query", validator=table_tools.averages_ok),
        step("report", "Write the report", kind="code", tool="write_report"),
        step("check", "Check the report against the table", kind="query", tool="check_report"),
    ),
    validator=table_tools.report_ok,
    model="scripted:agentlab.tasks.sea:policy",
)
