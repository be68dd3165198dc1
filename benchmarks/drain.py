"""drain.c in Python, run as a script: ``python -I -S drain.py FILE COMMAND [ARG]...``."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios


def drain(path: str, argv: list[str]) -> int:
    """Run ``argv`` on a terminal of 120x40 and put what it shows into ``path``; ``-`` throws it away."""
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if path != "-" else -1
    pid, terminal = os.forkpty()
    if pid == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            os.execvp(argv[0], argv)
        finally:
            os._exit(127)
    read, write = os.read, os.write
    try:
        while data := read(terminal, 65536):
            if out >= 0:
                write(out, data)
    except OSError:  # EIO: nobody has the terminal open any more
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 1


if __name__ == "__main__":
    sys.exit(drain(sys.argv[1], sys.argv[2:]))
