"""What some tests need of the machine, how to see whether it is there, and the command that brings it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from tests.support.paths import JS, ROOT

OLD_MCP_PYTHON = ROOT / ".venv-mcp1" / "bin" / "python"  #: has the MCP client of the generation before


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a machine may lack."""

    is_there: Callable[[], bool]
    remedy: str  #: the one command that makes the tests run that need it


def _command(name: str, package: str | None = None) -> Tool:
    return Tool(lambda: shutil.which(name) is not None, f"apt-get install {package or name}")


def _mounts() -> bool:
    """Whether a file system can be mounted here; the mount goes away with the process that made it."""
    if shutil.which("unshare") is None:
        return False
    words = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


TOOLS: Mapping[str, Tool] = {
    "chromium": _command("chromium"),
    "dot": _command("dot", "graphviz"),
    "git": _command("git"),
    "node": _command("node", "nodejs"),
    "npm packages": Tool((JS / "node_modules" / ".package-lock.json").exists, "scripts/install-test-tools"),
    "old MCP client": Tool((ROOT / ".venv-mcp1" / "installed").exists, "scripts/install-test-tools"),
    "mount": Tool(_mounts, "sudo make test"),
    "root": Tool(lambda: os.getuid() == 0 and _is_real_root(), "sudo make test"),
    "strace": _command("strace"),
    "systemd-analyze": _command("systemd-analyze", "systemd"),
    "tmux": _command("tmux"),
}


def _is_real_root() -> bool:
    """Whether other users exist for us: in a user namespace that maps one user, root is everybody."""
    with open("/proc/self/uid_map") as file:
        return sum(int(line.split()[2]) for line in file) > 1


@cache
def is_missing(name: str) -> bool:
    """Whether the machine lacks a tool; asked once."""
    return not TOOLS[name].is_there()
