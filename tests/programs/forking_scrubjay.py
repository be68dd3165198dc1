"""Run commands of the command line, each in a process of its own, without starting an interpreter for each.

``python forking_scrubjay.py SOCKET_FD PADDING``: this process imports what servers and runners need, which takes a
second, and then forks for every request. Requests and answers are lines of JSON on the socket:
``{"argv", "cwd", "environ", "out", "log", "times"}`` starts a command and answers ``{"pid"}``; ``{"poll": PID}``
answers ``{"status"}``, which is null while the command runs. The end of the socket ends this process, not the commands.

A command has its own words in ``/proc/PID/cmdline``; they take the place of PADDING.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import socket
import sys
from typing import Any

from timed_scrubjay import set_times

from scrubjay.cli import main
from scrubjay.server.mcp.endpoint import all_tools

# What a server or a runner loads until it has served its first request and tool.
_LOADED = (
    *("alembic.command", "anyio._backends._asyncio", "mako.template", "pysqlite3", "uvicorn.lifespan.on", "uvloop"),
    *("scrubjay.server.mcp.protocol", "scrubjay.server.mcp.toolbox"),
    *(f"scrubjay.cli.{name}" for name in ("command_line", "logging", "machinery")),
    *(f"scrubjay.cli.{name}_command" for name in ("runner", "server", "up")),
)
_ARG_START = 48 - 3  # in /proc/PID/stat, after the name


def show_words(argv: list[str]) -> None:
    """Let the kernel show these words as our command line."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_START + 1])
    words = b"".join(os.fsencode(word) + b"\0" for word in argv)
    assert len(words) <= end - start, "the padding is too short"
    ctypes.memmove(start, words.ljust(end - start, b"\0"), end - start)


def become(request: dict[str, Any]) -> None:
    """Be the command: its session, streams, environment and words."""
    os.setsid()
    for number, path in ((1, request["out"]), (2, request["log"])):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    set_times(request["times"])
    sys.argv = ["scrubjay", *request["argv"][1:]]
    show_words(request["argv"])


def serve(requests: socket.socket) -> bool:
    """Do what is asked for until the socket ends; True in a process that is to run a command."""
    statuses: dict[int, int] = {}
    with requests, requests.makefile("rw") as lines:
        for line in lines:
            request = json.loads(line)
            answer: dict[str, int | None]
            if "poll" in request:
                pid = request["poll"]
                if pid not in statuses:
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    if ended:
                        statuses[pid] = os.waitstatus_to_exitcode(status)
                answer = {"status": statuses.get(pid)}
            else:
                pid = os.fork()
                if pid == 0:
                    become(request)
                    return True
                answer = {"pid": pid}
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
    return False


if __name__ == "__main__":
    for name in _LOADED:
        importlib.import_module(name)
    all_tools()
    gc.freeze()  # not to copy what is never freed into every command
    if serve(socket.socket(fileno=int(sys.argv[1]))):
        main()
