"""Summaries by a program of this machine: it reads the turns from its standard input and writes a summary."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from scrubjay.fleet.summary_prompt import Prompt
from scrubjay.server.sessions.summariser import ANSWER_MAX_BYTES, MAKE_WITHIN_S, SummariserFailed, shown, tidy

_CHUNK_BYTES = 65536
_REST_WITHIN_S = 1.0  # for what it has written to be read; what has left its group may keep the pipe for ever
_STDERR_KEPT_BYTES = 4096  # the end of it
_OURS = ("SCRUBJAY_", "JAY_")  # settings with secrets, and what makes a program believe that it is in a pod


class CommandSummariser:
    """A program and its arguments."""

    def __init__(self, command: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self._command = command
        self._environ = {name: value for name, value in environ.items() if not name.startswith(_OURS)}
        self._program = Path(command[0]).name

    @property
    def name(self) -> str:
        """Who it is, for people."""
        return f"summariser:{self._program}"

    @property
    def model(self) -> str | None:
        """Nobody knows which it asks, if any."""
        return None

    async def make(self, prompt: Prompt) -> str:
        """A summary; SummariserFailed says why there is none. The program has ended when this does."""
        try:
            async with asyncio.timeout(MAKE_WITHIN_S):
                return tidy(await self._run(prompt.whole.encode("utf-8", "replace")))
        except TimeoutError as error:
            raise SummariserFailed(f"{self._program} took longer than {MAKE_WITHIN_S:.0f} s") from error

    async def _run(self, asked: bytes) -> str:
        with _Pipe(_keep_all) as output, _Pipe(_keep_end) as complaints:
            process = await _known(asyncio.create_task(self._start(asked, output, complaints)))
            try:
                await _until_ended(process, output)
                _kill(process)  # what it has left behind would keep the pipes open
                status = await process.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_REST_WITHIN_S):
                        await output.over.wait()
                        await complaints.over.wait()
            finally:
                if process.returncode is None:
                    _kill(process)
                    await process.wait()
        answer, complaint = output.data, complaints.data
        if len(answer) > ANSWER_MAX_BYTES:
            raise SummariserFailed(f"{self._program} has written more than {ANSWER_MAX_BYTES >> 20} MiB")
        if status != 0:
            lines = complaint.decode("utf-8", "replace").split("\n")
            why = next((line for line in reversed(lines) if line.strip()), "")
            raise SummariserFailed(f"{self._program} {_ended(status)}{f': {shown(why)}' if why else ''}")
        return answer.decode("utf-8", "replace")

    async def _start(self, asked: bytes, output: _Pipe, complaints: _Pipe) -> asyncio.subprocess.Process:
        with os.fdopen(os.memfd_create("turns"), "w+b") as turns:  # it reads as much of them as it likes
            turns.write(asked)
            turns.seek(0)
            try:
                # In a folder that is nobody's project, and a group of its own to end.
                return await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=turns,
                    stdout=output.writing,
                    stderr=complaints.writing,
                    cwd="/",
                    env=self._environ,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise SummariserFailed(f"{self._program} cannot be started: {why}") from error
            finally:
                output.handed_over()
                complaints.handed_over()


class _Pipe:
    """What a program writes; closed on the way out, whoever still writes into it."""

    def __init__(self, keep: Callable[[bytes, bytes], bytes]) -> None:
        """``keep`` says what is kept of what was, and what comes."""
        self._keep, self._loop = keep, asyncio.get_running_loop()
        self._reading, self.writing = os.pipe()
        self.data = b""
        self.over = asyncio.Event()  #: there is no more, or no more is kept

    def __enter__(self) -> _Pipe:
        os.set_blocking(self._reading, False)
        self._loop.add_reader(self._reading, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        self.handed_over()

    def handed_over(self) -> None:
        """The program has its end, so it is not needed here."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def _read(self) -> None:
        try:
            more = os.read(self._reading, _CHUNK_BYTES)
        except BlockingIOError:
            return
        self.data = self._keep(self.data, more)
        if not more or len(self.data) > ANSWER_MAX_BYTES:
            self._loop.remove_reader(self._reading)
            self.over.set()


def _keep_all(before: bytes, more: bytes) -> bytes:
    return before + more


def _keep_end(before: bytes, more: bytes) -> bytes:
    return (before + more)[-_STDERR_KEPT_BYTES:]


async def _known(starting: asyncio.Task[asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """A program that is being started; who is cancelled meanwhile leaves none behind that nobody knows of."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            _kill(starting.result())
            await starting.result().wait()
        raise


async def _until_ended(process: asyncio.subprocess.Process, output: _Pipe) -> None:
    """Return when a program has ended, or has said too much."""
    ending, hearing = asyncio.create_task(process.wait()), asyncio.create_task(output.over.wait())
    try:
        await asyncio.wait([ending, hearing], return_when=asyncio.FIRST_COMPLETED)
        if len(output.data) <= ANSWER_MAX_BYTES:
            await ending
    finally:
        ending.cancel()
        hearing.cancel()
        await asyncio.wait([ending, hearing])


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ended(status: int) -> str:
    return f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
