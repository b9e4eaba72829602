"""The one magic: ``%agent VERB …`` and ``%%agent VERB …``."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from traitlets import Unicode

from agentlab.errors import AgentlabError
from agentlab.events import readable
from agentlab.notebook.display import choose
from agentlab.notebook.everyline import EveryLine
from agentlab.notebook.parsing import dispatch
from agentlab.notebook.registry import all_verbs

_NAME = "agent"


@magics_class
class AgentMagics(Magics):
    """The bench's magic. ``%config AgentMagics.display = "plain"`` overrides AGENTLAB_DISPLAY."""

    display = Unicode("", help="live, plain or none; empty: as AGENTLAB_DISPLAY says").tag(config=True)

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.observe(lambda change: choose(change["new"]), names="display")

    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> Any:
        """Replaced by :func:`usage` when the magic is installed."""
        shell: Any = self.shell
        try:
            # The body of a cell is never expanded or templated: it is what the user wrote.
            return dispatch(line, cell, shell.user_ns)
        except (AgentlabError, TimeoutError) as error:
            raise UsageError(readable(" ".join(str(error).split()))) from None


_ASKS = re.compile(r"^(?P<indent>[ \t]*)%agent[ \t]+(?P<line>(?:reply|approve|deny|run|sql)\b.*\?)[ \t]*$")


def keep_question_marks(lines: list[str]) -> list[str]:
    """An answer that ends in a question mark stays an answer: IPython would take ``%agent reply Which one?`` for a
    question about *one*. Lines that ask for help on a name (``%agent?``) are left alone."""
    return [_kept(line) for line in lines]


def _kept(line: str) -> str:
    found = _ASKS.match(line.rstrip("\n"))
    if found is None:
        return line
    return f"{found['indent']}get_ipython().run_line_magic({_NAME!r}, {found['line']!r})\n"


def usage() -> str:
    """The text of ``%agent?``: every verb with its example."""
    verbs = all_verbs().values()
    width = max(len(verb.example) for verb in verbs)
    lines = [f"    {verb.example:<{width}}  # {verb.help}" for verb in verbs]
    head = "Long-running agents that survive crashes. ``%agent VERB -h`` shows a verb's options.\n"
    tail = "``%%agent run`` takes the goal from the cell's body. Every verb returns the object it shows."
    return "\n".join([head, *lines, "", tail])


def install(shell: Any) -> None:
    """Register the magic, once."""
    if isinstance(_registered(shell), AgentMagics):
        return
    AgentMagics.agent.__doc__ = usage()
    magics = AgentMagics(shell)
    shell.register_magics(magics)
    shell.configurables.append(magics)
    shell.input_transformers_cleanup.append(keep_question_marks)
    shell.ast_transformers.append(EveryLine(shell, _NAME))


def remove(shell: Any) -> None:
    """Take the magic back."""
    magics = _registered(shell)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(_NAME, None)
    if keep_question_marks in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(keep_question_marks)
    shell.ast_transformers[:] = [one for one in shell.ast_transformers if not isinstance(one, EveryLine)]
    if magics in shell.configurables:
        shell.configurables.remove(magics)


def _registered(shell: Any) -> Any:
    return getattr(shell.magics_manager.magics["line"].get(_NAME), "__self__", None)
