"""Unix sockets, whatever the length of their paths."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def dial(path: Path, *, timeout_s: float | None = None) -> socket.socket:
    """Connect to a unix socket; OSError if nobody listens there, or not in time. The timeout stays with it."""
    dialled = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        dialled.settimeout(timeout_s)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Through the descriptor, because a socket's path may be no longer than 107 bytes.
            dialled.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    except OSError:
        dialled.close()
        raise
    return dialled
