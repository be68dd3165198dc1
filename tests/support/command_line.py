"""Run a command of the command line in this process: what a shell would see of it, without starting an interpreter.

``scrubjay.cli`` takes its arguments from ``sys.argv``, its settings from the environment, its directory from the
process and its streams from descriptors 0 to 2, so all of these are the command's own while it runs. Commands that
serve, draw or replace the process need one of their own: ``tests/support/cli.py`` starts those.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from scrubjay.cli import main

# The environment, the directory and the streams belong to the process, so one command runs at a time.
_ONE_AT_A_TIME = threading.RLock()


def run_command(
    words: Sequence[str], *, environ: Mapping[str, str], cwd: Path | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; its exit code, and what it wrote."""
    with (
        _ONE_AT_A_TIME,
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin)
        given.seek(0)
        with _arguments(words), _environment(environ), _directory(cwd), _streams(given, out, err):
            code = _exit_code()
        return subprocess.CompletedProcess(list(words), code, _content(out), _content(err))


def _exit_code() -> int:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as for a person: the test suite makes errors of them
            main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@contextmanager
def _arguments(words: Sequence[str]) -> Generator[None]:
    before, sys.argv = sys.argv, ["scrubjay", *words]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _environment(environ: Mapping[str, str]) -> Generator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _directory(cwd: Path | None) -> Generator[None]:
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        if cwd is not None:
            os.chdir(cwd)
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def _streams(given: IO[bytes], out: IO[bytes], err: IO[bytes]) -> Generator[None]:
    """Let descriptors 0 to 2, and the objects Python has for them, be these files."""
    sys.stdout.flush()
    sys.stderr.flush()
    streams, descriptors = (sys.stdin, sys.stdout, sys.stderr), [os.dup(number) for number in range(3)]
    try:
        for number, file in enumerate((given, out, err)):
            os.dup2(file.fileno(), number)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), "utf-8", "surrogateescape")
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "surrogateescape")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                if not stream.closed:
                    stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
