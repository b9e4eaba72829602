"""SQL over the logs of a lab: named views, answered by an in-memory DuckDB from an explicit list of files."""

from agentlab.query.damage import DamagedSession
from agentlab.query.query import Query
from agentlab.query.views import VIEWS, Column, View

__all__ = ["VIEWS", "Column", "DamagedSession", "Query", "View"]
