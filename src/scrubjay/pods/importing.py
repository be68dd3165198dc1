"""Make a pod out of a recording of another tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import scrubjay
from scrubjay.clock import SystemClock
from scrubjay.errors import CastError
from scrubjay.ids import PodName, new_pod_id, new_session_id, suggest_pod_name
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod, read_pod, write_facts
from scrubjay.tape.anchor import WATERMARK
from scrubjay.tape.asciicast import limited_lines, read_cast
from scrubjay.tape.cast_import import Imported, import_cast, split_command
from scrubjay.tape.disk import Folder
from scrubjay.tape.seal import seal_ended_segments
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import TapeWriter


def import_pod(
    home: Home,
    source: Path,
    name: PodName | None,
    *,
    accept_truncated: bool,
    progress: Callable[[int], None],
) -> tuple[Pod, Imported]:
    """Turn an asciicast file into a pod that has ended. A cast that cannot be read leaves nothing behind."""
    if source.is_dir():
        raise CastError(str(source), "this is a directory", hint="give an asciicast file")
    try:
        file = source.open("rb")
    except OSError as error:
        raise CastError(str(source), error.strerror or "cannot be opened", hint="give an asciicast file") from error
    with file:
        if name is not None:
            home.require_free(name)
        with home.changing():
            taken = {str(pod.name) for pod in home.pods()}
        chosen = name if name is not None else suggest_pod_name(source.stem, taken)
        with home.staging(new_pod_id()) as folder:
            imported = _write(_Counted(file, progress), source, folder, chosen, accept_truncated=accept_truncated)
            with home.changing():
                home.require_free(chosen)
                final = home.adopt(folder)
    pod = read_pod(final)
    assert pod is not None
    return pod, imported


def _write(file: _Counted, source: Path, folder: Path, name: PodName, *, accept_truncated: bool) -> Imported:
    tape, session = folder.name, new_session_id()
    cast = read_cast(limited_lines(file, str(source)), str(source), accept_truncated=accept_truncated)
    watermark = WatermarkFile(Folder(str(folder)).create(WATERMARK), tape)
    writer = TapeWriter(Folder(str(folder / "tape")), tape, watermark=watermark)
    try:
        imported = import_cast(cast, writer, name=name, session=session)
    finally:
        writer.close()
    seal_ended_segments(folder / "tape", folder, tape, complete=True)
    header = cast.header
    created = header.wall_us if header.wall_us is not None else SystemClock().wall_us()
    write_facts(folder / "end.json", offset=writer.offset, wall=created + imported.last_at)
    write_facts(
        folder / "pod.json",
        id=tape,
        name=name,
        session=session,
        argv=split_command(header.command or ""),
        cols=header.cols,
        rows=header.rows,
        created=created,
        scrubjay=scrubjay.__version__,
        imported=True,
    )
    return imported


class _Counted:
    """A file that says how much of it has been read."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._file, self._progress = file, progress
        self._unsaid = 0

    def readline(self, limit: int, /) -> bytes:
        line = self._file.readline(limit)
        self._unsaid += len(line)
        if self._unsaid >= 1 << 20:
            self._progress(self._unsaid)
            self._unsaid = 0
        return line
