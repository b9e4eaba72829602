"""Kernels for tests: each speaks over sockets in a folder of its own.

Jupyter chooses free TCP ports and lets the kernel bind them a second later. Where somebody else has taken one in between,
which several test processes at once make likely, the kernel dies, or lives and never answers.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from jupyter_client.client import KernelClient
from jupyter_client.manager import KernelManager

START_S = 120


class OwnSockets(KernelManager):
    """A kernel's manager with a folder of sockets, which goes away with the kernel."""

    def __init__(self, **traits: Any) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="agentlab-kernel-", ignore_cleanup_errors=True)
        super().__init__(transport="ipc", ip=os.path.join(self._sockets.name, "k"), **traits)

    def cleanup_ipc_files(self) -> None:
        """Remove the sockets with their folder."""
        super().cleanup_ipc_files()
        self._sockets.cleanup()


def start_kernel(**where: Any) -> tuple[OwnSockets, KernelClient]:
    """Start a kernel (``cwd=``, ``env=``) and wait until it answers: its manager, and a client of it."""
    manager = OwnSockets(kernel_name="python3")
    manager.start_kernel(**where)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=START_S)
    except RuntimeError:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        raise
    return manager, client
