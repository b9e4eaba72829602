"""Worker processes that do not run the script of their owner again.

A spawned process imports the main module of its owner, which starts a comparison anew in each worker when the script
has no ``if __name__ == "__main__"``: every worker dies of it. The runs travel as cloudpickle, which carries what the
main module defines by value, so nothing of it is needed.
"""

from __future__ import annotations

import multiprocessing.context
import threading
from multiprocessing import spawn
from typing import Any

_lock = threading.Lock()


class FreshProcess(multiprocessing.context.SpawnProcess):
    """A spawned process that knows nothing of its owner's main module."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _lock:
            whole, mine = spawn.get_preparation_data, threading.get_ident()

            def without_main(name: str) -> dict[str, Any]:
                data = dict(whole(name))
                if threading.get_ident() == mine:  # what other threads start at this moment is their business
                    data.pop("init_main_from_name", None)
                    data.pop("init_main_from_path", None)
                return data

            spawn.get_preparation_data = without_main
            try:
                return multiprocessing.context.SpawnProcess._Popen(process_obj)
            finally:
                spawn.get_preparation_data = whole


class FreshContext(multiprocessing.context.SpawnContext):
    """The context of such processes, for an executor's ``mp_context``."""

    Process = FreshProcess
