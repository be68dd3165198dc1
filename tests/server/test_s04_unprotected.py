"""The server does not run where others could overhear it, and another user does not get in."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from scrubjay.errors import BadInput, BadSetting, CannotListen
from scrubjay.server.listeners import Listeners, check_bind
from tests.support.cli import Cli
from tests.support.guarded_server import GuardedServer, free_socket

_NOBODY = 65534


@pytest.mark.parametrize(
    "host",
    [
        *("0.0.0.0", "::", "", "192.168.1.5", "10.0.0.1", "fe80::1", "::ffff:192.168.1.5", "127.1", "0", "2130706433"),
        *("example.test", "127.0.0.1.evil.test", "localhost.evil.test"),
    ],
)
def test_s4_what_others_can_reach_is_not_listened_on_without_tls(host: str) -> None:
    with pytest.raises(BadSetting, match="without TLS") as refused:
        check_bind(host, tls=False)

    assert isinstance(refused.value, BadInput)  # the command line's exit status 2
    assert refused.value.hint is not None
    assert "tls_cert" in refused.value.hint
    check_bind(host, tls=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "localhost", "LOCALHOST", "::1"])
def test_s4_loopback_needs_no_tls(host: str) -> None:
    check_bind(host, tls=False)


def test_s4_listening_checks_the_address_first() -> None:
    with pytest.raises(BadSetting):
        Listeners().open_tcp("0.0.0.0", 0, tls=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test"])
def test_s4_up_refuses_to_start_where_it_could_be_overheard(cli: Cli, host: str) -> None:
    error = cli.error("up", "--port", "0", "--host", host, code=2)

    assert f"will not listen on {host} without TLS" in error
    assert "tls_cert" in error
    assert not list(cli.data.rglob("*.sock"))


@pytest.mark.anyio
async def test_s4_loopback_lets_nobody_in_without_a_token(guarded_server: GuardedServer) -> None:
    assert (await guarded_server.ask("GET", "/api/v1/pods")).status == 401


@pytest.mark.anyio
async def test_s4_the_unix_socket_is_for_this_user_alone(guarded_server: GuardedServer) -> None:
    assert stat.S_IMODE(guarded_server.socket.stat().st_mode) == 0o600


def test_s4_the_unix_socket_is_private_from_its_first_moment_and_whatever_the_umask(tmp_path: Path) -> None:
    before, listeners = os.umask(0), Listeners()
    try:
        listeners.open_unix(tmp_path / "server.sock")
        mode = stat.S_IMODE((tmp_path / "server.sock").stat().st_mode)
    finally:
        os.umask(before)
        listeners.close()

    assert mode == 0o600
    assert not (tmp_path / "server.sock").exists()


@pytest.mark.anyio
@pytest.mark.needs("root")
async def test_s4_another_user_is_refused_even_where_the_socket_can_be_reached(guarded_server: GuardedServer) -> None:
    guarded_server.socket.chmod(0o666)  # as a careless copy of the folder would leave it
    for folder in guarded_server.socket.parents:
        if folder != Path("/") and folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o001)
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
        "s.connect(sys.argv[1]); s.sendall(b'GET /api/v1/me HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); "
        "sys.stdout.buffer.write(s.recv(100))"
    )
    knocking = await asyncio.create_subprocess_exec(
        "python3",
        "-c",
        code,
        str(guarded_server.socket),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, trouble = await knocking.communicate()

    assert said == b""
    assert b"ConnectionReset" in trouble or b"BrokenPipe" in trouble or trouble == b"", trouble
    assert (await guarded_server.ask_locally("GET", "/api/v1/me", ("Host", "x"))).status == 200


def test_s4_nobody_can_stand_at_the_other_family_of_localhost() -> None:
    listeners = Listeners()
    listeners.open_tcp("localhost", 0, tls=False)
    families = {opened.family for opened in listeners.tcp}
    ports = {opened.getsockname()[1] for opened in listeners.tcp}
    port = listeners.port
    listeners.close()

    assert families == {socket.AF_INET, socket.AF_INET6}
    assert ports == {port}


def test_s4_a_port_of_which_another_program_has_one_family_is_not_taken() -> None:
    taken = socket.socket(socket.AF_INET6)
    taken.bind(("::1", 0))
    taken.listen()

    with taken, pytest.raises(CannotListen) as refused:
        Listeners().open_tcp("127.0.0.1", taken.getsockname()[1], tls=False)

    assert refused.value.taken


def test_s4_a_port_in_use_is_named() -> None:
    with free_socket() as taken, pytest.raises(CannotListen, match=r"127\.0\.0\.1:"):
        Listeners().open_tcp("127.0.0.1", taken.getsockname()[1], tls=False)


def test_s4_the_socket_of_a_server_that_runs_is_left_alone_and_that_of_a_dead_one_replaced(tmp_path: Path) -> None:
    path, first, second = tmp_path / "server.sock", Listeners(), Listeners()
    first.open_unix(path)

    with pytest.raises(CannotListen, match="another server listens there"):
        second.open_unix(path)

    assert first.unix is not None
    first.unix.close()  # as a killed process leaves it
    second.open_unix(path)
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()


def test_s4_a_socket_whose_path_is_too_long_for_the_kernel_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    folder.mkdir(parents=True)
    listeners = Listeners()

    listeners.open_unix(folder / "server.sock")

    assert (folder / "server.sock").is_socket()
    listeners.close()
