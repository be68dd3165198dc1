"""The agent's process and its pseudo-terminal."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios

_READ_BYTES = 8192  # a terminal gives out half of that at a time
_MORE_BYTES = 1024  # a read of fewer has emptied the terminal
# What one turn of the loop takes from a terminal that never pauses: enough to make the tape's write
# worth its call, little enough that a keystroke is not kept waiting.
_DRAIN_BYTES = 128 << 10
_LFLAG = 3


class SpawnFailed(Exception):
    """The program could not be started."""


class Agent:
    """A started program on its own terminal."""

    def __init__(self, pid: int, terminal: int, theirs: int) -> None:
        self.pid = pid
        self.terminal = terminal
        # The agent's own side is held open too: else the kernel would call the terminal hung up as soon as
        # the agent closes it, and what the agent shows after it has opened it again would go unheard.
        self._theirs = theirs
        self.name = _name_of(theirs)  #: of the terminal, as the agent knows it
        self.hung_up = False
        self._pending: list[bytes] = []
        self.pending_bytes = 0

    def read(self) -> list[bytes]:
        """What the agent has shown since the last read, in parts; none if nothing, or if it hung up."""
        parts: list[bytes] = []
        left = _DRAIN_BYTES
        try:
            while left > 0:
                part = os.read(self.terminal, _READ_BYTES)
                if not part:
                    self.hung_up = True
                    break
                parts.append(part)
                if len(part) < _MORE_BYTES:
                    break
                left -= len(part)
        except BlockingIOError:
            return parts
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: nobody has the terminal open any more
                raise
            self.hung_up = True
        return parts

    def type(self, data: bytes) -> None:
        """Send ``data`` to the agent as if typed; what it does not take now is kept."""
        if not self._pending:
            try:
                data = data[os.write(self.terminal, data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # nobody has the terminal open any more
        if data:
            self._pending.append(data)
            self.pending_bytes += len(data)

    def type_pending(self) -> None:
        """Send what was kept."""
        while self._pending:
            try:
                taken = os.write(self.terminal, self._pending[0])
            except BlockingIOError:
                return
            except OSError:
                self._pending, self.pending_bytes = [], 0
                return
            self.pending_bytes -= taken
            if taken == len(self._pending[0]):
                del self._pending[0]
            else:
                self._pending[0] = self._pending[0][taken:]

    @property
    def hides_typing(self) -> bool:
        """Whether a line is being read without echo, as for a password.

        Programs that draw themselves switch line reading off too: what is typed to those is not hidden.
        """
        flags = self._flags()
        return bool(flags & termios.ICANON) and not flags & termios.ECHO

    @property
    def gives_lines(self) -> bool:
        """Whether what is typed is given out as whole lines; programs that draw themselves read every key."""
        return bool(self._flags() & termios.ICANON)

    def _flags(self) -> int:
        try:
            return termios.tcgetattr(self.terminal)[_LFLAG]
        except termios.error:
            return 0

    def resize(self, cols: int, rows: int) -> None:
        """Change the size of the terminal; the agent is told by the kernel."""
        set_size(self.terminal, cols, rows)

    def signal(self, number: int) -> None:
        """Send a signal to the agent and whatever runs with it in the foreground."""
        # A terminal without a foreground group says 0, which as a target would mean our own group.
        for group in {self.pid, self.foreground_group()} - {0}:
            try:
                os.killpg(group, number)
            except (ProcessLookupError, PermissionError):
                continue

    def foreground_group(self) -> int:
        """The process group that has the terminal; 0 if none has."""
        try:
            return os.tcgetpgrp(self.terminal)
        except OSError:
            return 0

    def close(self) -> None:
        """Give the terminal back; whoever still has it open is hung up."""
        os.close(self.terminal)
        os.close(self._theirs)


def _name_of(terminal: int) -> str:
    try:
        return os.ttyname(terminal)
    except OSError:
        return ""  # where /dev/pts is another's; an agent runs without it


def set_size(terminal: int, cols: int, rows: int) -> None:
    """Tell the kernel how large a terminal is."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def spawn(argv: list[str], cwd: str, environment: dict[str, str], *, cols: int, rows: int) -> Agent:
    """Start a program on a new terminal; SpawnFailed if it cannot be, and then nothing runs."""
    told, tell = os.pipe()
    terminal, theirs = os.openpty()
    set_size(terminal, cols, rows)
    pid = os.fork()
    if pid == 0:
        _become(argv, cwd, environment, theirs, tell)
    os.close(tell)
    with open(told, "rb") as pipe:
        failure = pipe.read()  # ends when the program is running: its side closes on exec
    if failure:
        os.waitpid(pid, 0)
        os.close(terminal)
        os.close(theirs)
        raise SpawnFailed(failure.decode("utf-8", "replace"))
    os.set_blocking(terminal, False)
    return Agent(pid, terminal, theirs)


def _become(argv: list[str], cwd: str, environment: dict[str, str], terminal: int, tell: int) -> None:
    what = "the terminal"
    try:
        os.login_tty(terminal)
        # Ignored signals stay ignored across exec: the keeper and Python ignore some, and who started it in the
        # background of a shell without job control, or with nohup, others.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        what = cwd
        os.chdir(cwd)
        what = argv[0]
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        os.write(tell, f"{what}: {error.strerror}".encode())
    finally:
        os._exit(127)
