"""The systemd user unit that keeps the server running. Pure.

Pods outlive the server, so their keepers must outlive its unit. A keeper that the server starts is in the unit's
control group, and a process that leaves its parent and session does not leave that: by systemd's default
(``KillMode=control-group``) every stop or restart of the unit would kill all keepers and all agents. With
``KillMode=process`` it kills the server alone, also after ``TimeoutStopSec``; what is left stays in the group, and
the next start of the unit goes on beside it. systemd's manual advises against this because processes may be
forgotten; keepers are not: the server finds each of them again, and ``scrubjay ps`` lists them.

Not chosen: a scope for each pod (``systemd-run --scope``), which puts the session bus and another program in the way
of every start and makes two kinds of pods, those started with a manager and those without; ``Delegate=yes``, which
lets the server make groups below its own, but a stop kills what is in those too.
"""

from __future__ import annotations

from collections.abc import Sequence

UNIT = "scrubjay.service"
MARK = "# Written by 'scrubjay service install', which writes it anew; keep changes in: systemctl --user edit scrubjay"

_UNIT = """\
{mark}
[Unit]
Description=Scrubjay, recorder and control tower of terminal agents
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
ExecStart={command}
# Where agents are found is what your shell knew when this was written; the user manager's own PATH is shorter.
Environment={path}
# Pods outlive the server: a stop or restart ends the server alone and leaves keepers and agents running.
KillMode=process
TimeoutStopSec=20
Restart=on-failure
RestartSec=2
# Exit 2 says that settings cannot be used, which trying again does not change.
RestartPreventExitStatus=2
# One agent that runs out of memory ends alone; by default it would take the server with it.
OOMPolicy=continue
# The whole fleet counts as this unit's tasks; the limit of your user still holds.
TasksMax=infinity
# No memory with tokens and screens is left in core files; agents may raise this for themselves (ulimit -c).
LimitCORE=0:infinity
# No more hardening than this, because agents inherit it: NoNewPrivileges and everything that implies it
# (system call and namespace filters) would break sudo and sandboxes inside pods; ProtectSystem, ProtectHome
# and PrivateTmp would hide the files they work on; a UMask would change the modes of what they write.

[Install]
WantedBy=default.target
"""


def render_unit(argv: Sequence[str], *, search_path: str) -> str:
    """The unit that runs a command, which finds programs in ``search_path``."""
    program, *arguments = argv
    # Some names systemd takes as an argument only, and in a program's name it puts no variables in.
    if any(letter in "\"'\\$" or not letter.isprintable() for letter in program):
        program, arguments = "/usr/bin/env", [*argv]
    command = [quote(program), *(quote(word, dollars=True) for word in arguments)]
    return _UNIT.format(mark=MARK, command=" ".join(command), path=quote(f"PATH={search_path}"))


def quote(word: str, *, dollars: bool = False) -> str:
    """One word as systemd reads it back; ``dollars`` where it would put variables in."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("$", "$$") if dollars else escaped
    # Bytes that are no text, and what would end the line, are written by number.
    escaped = "".join(letter if letter.isprintable() else _by_number(letter) for letter in escaped)
    plain = all(letter.isalnum() or letter in "/._-+:=,@%$" for letter in escaped)
    return escaped if plain and escaped else f'"{escaped}"'


def _by_number(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
