"""Only the user who started a pod can talk to its keeper or read its tape."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from scrubjay.keeper.clients import peer
from scrubjay.keeper.protocol import encode_frame
from tests.support.conditions import DEADLINE_S
from tests.support.fleet import Fleet, Member, open_fleet

_NOBODY = 65534


@pytest.fixture
def public_fleet() -> Generator[Fleet]:
    """A fleet in a place that every user can get to."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o755)
    try:
        with open_fleet(place / "data", place / "logs") as fleet:
            yield fleet
    finally:
        shutil.rmtree(place)


def _modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder.parent)): stat.S_IMODE(path.lstat().st_mode) for path in paths}


def test_folders_are_0700_and_files_and_the_socket_0600(fleet: Fleet) -> None:
    shutil.rmtree(fleet.data)  # so that it is made by the command line
    before = os.umask(0)
    try:
        member = fleet.start("m", "cat")
    finally:
        os.umask(before)
    running = _modes(fleet.data)
    fleet.finish(member)
    fleet.await_sealed(member)

    for modes in (running, _modes(fleet.data)):
        for name, mode in modes.items():
            wanted = 0o700 if (fleet.data.parent / name).is_dir() else 0o600
            assert mode == wanted, name
    assert any(name.endswith("keeper.sock") for name in running)


def _knock_as(uid: int, folder: Path) -> str:
    """What another user gets who asks a keeper for its status: an answer, nothing, or a refusal."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.chdir(folder)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
                caller.settimeout(DEADLINE_S)
                caller.connect("keeper.sock")
                caller.sendall(encode_frame({"do": "status", "id": 1}))
                os.write(tell, b"answer" if caller.recv(65536) else b"nothing")
        except PermissionError:
            os.write(tell, b"refused")
        except (BrokenPipeError, ConnectionResetError):
            os.write(tell, b"nothing")
        finally:
            os._exit(0)
    os.close(tell)
    with open(told, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(pid, 0)
    return answer


@pytest.mark.needs("root")
def test_another_user_does_not_get_to_the_socket(public_fleet: Fleet) -> None:
    member = public_fleet.start("m", "cat")

    assert _knock_as(_NOBODY, member.pod.folder) == "refused"
    assert _knock_as(0, member.pod.folder) == "answer"


@pytest.mark.needs("root")
def test_another_user_who_gets_to_the_socket_is_hung_up_on(public_fleet: Fleet) -> None:
    member = public_fleet.start("m", "cat")
    _open_up(public_fleet, member)

    assert _knock_as(_NOBODY, member.pod.folder) == "nothing"
    assert _knock_as(0, member.pod.folder) == "answer"


def _open_up(fleet: Fleet, member: Member) -> None:
    for folder in (fleet.data, fleet.data / "pods", member.pod.folder):
        folder.chmod(0o755)
    (member.pod.folder / "keeper.sock").chmod(0o666)


def test_the_kernel_tells_who_is_on_the_other_side() -> None:
    here, there = socket.socketpair()

    with here, there:
        assert peer(here) == (os.getpid(), os.getuid())


def test_a_data_directory_deeper_than_a_socket_name_may_be_long_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)

    with open_fleet(deep, tmp_path / "logs") as fleet:
        member = fleet.start("m", "cat")
        fleet.cli("mark", "m", "reached")

        assert member.labels() == ["reached"]
