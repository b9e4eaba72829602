"""The sales report: May 2023 of a dirty export, cleaned, summarised by region, checked, and announced once."""

from __future__ import annotations

from typing import Any

from agentlab.authoring import Task, step, tool
from agentlab.effects.notify import notify_region_report, verify_notification
from agentlab.models.scripted import call, say
from agentlab.models.view import View
from agentlab.tasks import sales_tools
from agentlab.tasks.data import dataset_path

NOTIFICATION = "The May 2023 sales report is ready: report.csv"


def policy(view: View) -> Any:
    """A small deterministic policy: it reads the current step and the last result, and calls the step's tool.

    After a failed call it tries again once with the same input, then says what it could not do.
    """
    current = view.status.get("step")
    if current is None:
        return say(f"The report for {sales_tools.MONTH} is in {sales_tools.REPORT}; the notification was sent.")
    name, arguments = CALLS[current]
    if view.errors_in_a_row(name) >= 3:
        return say(f"{name} fails again and again: {view.last.result if view.last else 'no result'}")
    why = f"Step {current} needs {name}."
    if view.errors_in_a_row(name):
        why = f"{name} failed; trying once more."
    return [say(why), call(name, **arguments)]


CALLS: dict[str, tuple[str, dict[str, str]]] = {
    "export": (
        "export_month",
        {"source": sales_tools.RAW, "month": sales_tools.MONTH, "target": sales_tools.EXPORTED},
    ),
    "clean": ("clean_rows", {"source": sales_tools.EXPORTED, "target": sales_tools.CLEANED}),
    "summarise": ("summarise", {"source": sales_tools.CLEANED, "target": sales_tools.REPORT}),
    "check": (
        "check_summary",
        {"report": sales_tools.REPORT, "cleaned": sales_tools.CLEANED, "month": sales_tools.MONTH},
    ),
    "notify": ("notify", {"message": NOTIFICATION}),
}

TASK = Task(
    name="sales_report",
    goal="Export the sales of May 2023, clean them, write a summary by region, check it, and send one notification.",
    constraints=(
        "Only May 2023: a report with another month in it is a failure.",
        "Never touch production: work on the export in the workspace.",
    ),
    files={sales_tools.RAW: dataset_path(sales_tools.RAW)},
    tools=(
        tool(sales_tools.export_month, effect="sandboxed", kind="query"),
        tool(sales_tools.clean_rows, effect="sandboxed", kind="move"),
        tool(sales_tools.summarise, effect="sandboxed", kind="code"),
        tool(sales_tools.check_summary, effect="sandboxed", kind="query"),
        tool(
            notify_region_report,
            name="notify",
            effect="external",
            kind="downstream",
            honours_key=True,
            verify=verify_notification,
        ),
    ),
    steps=(
        step("export", "Read the export, keep May 2023", kind="query", validator=sales_tools.exported_ok),
        step(
            "clean",
            "Remove duplicates, repair regions, dates and numbers",
            kind="work",
            validator=sales_tools.cleaned_ok,
        ),
        step("summarise", "Write a summary by region", kind="code", validator=sales_tools.summary_ok),
        step("check", "Check the summary against the cleaned rows", kind="query", tool="check_summary"),
        step("notify", "Send one notification", kind="downstream", tool="notify"),
    ),
    validator=sales_tools.report_ok,
    model="scripted:agentlab.tasks.sales:policy",
)
