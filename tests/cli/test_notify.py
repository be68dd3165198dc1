"""Notifications from the command line: whether they arrive, where they go, and which pods are left out."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from cli.conftest import Jay
from inbox import SECRET, Inbox, open_inbox


@pytest.fixture
def inbox() -> Generator[Inbox]:
    with open_inbox() as opened:
        yield opened


@contextmanager
def _server(jay: Jay) -> Generator[None]:
    """A server of the data directory."""
    with subprocess.Popen(
        [*jay.argv, "up", "--port", "0"], cwd=jay.work, env=jay.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        try:
            assert b"/login" in server.stdout.readline()
            yield
        finally:
            server.terminate()
            server.wait(20)


def test_a_test_message_goes_to_every_place_and_each_answer_is_said(jay: Jay, inbox: Inbox) -> None:
    with open_inbox() as other:
        jay.env["SCRUBJAY_NOTIFY"] = f"{inbox.url} {other.url}"
        done = jay("notify", "test")

        assert done.stdout.decode() == "1  json://…  sent\n2  json://…  sent\n"
        assert inbox.titles() == other.titles() == ["Scrubjay says hello"]


def test_a_place_that_does_not_take_it_is_told_apart_without_its_url(jay: Jay, inbox: Inbox) -> None:
    with open_inbox() as broken:
        broken.refuse = 10
        jay.env["SCRUBJAY_NOTIFY"] = f"{inbox.url} {broken.url} nosuch://{SECRET}"
        done = jay("notify", "test", code=1)
        rows = json.loads(jay("notify", "test", "--json", code=1).stdout)

    assert [row["sent"] for row in rows] == [True, False, False]
    assert "503" in rows[1]["error"]
    assert rows[2] == {"service": "nosuch://…", "sent": False, "error": "Apprise does not understand the URL"}
    assert SECRET not in (done.stdout + done.stderr).decode() + json.dumps(rows)
    assert done.stderr == b""


def test_a_url_can_be_tried_before_it_is_set_up(jay: Jay, inbox: Inbox) -> None:
    assert jay("notify", "test", "--url", inbox.url).stdout.decode() == "1  json://…  sent\n"


def test_with_nobody_to_notify_it_says_how_to_set_somebody_up(jay: Jay) -> None:
    assert "there is nobody to notify; set notify_urls" in jay.error("notify", "test", code=2)
    assert b"there is nobody to notify" in jay("notify", "list").stderr


def test_places_are_listed_by_their_service_alone(jay: Jay, inbox: Inbox) -> None:
    jay.env |= {"SCRUBJAY_NOTIFY": inbox.url, "SCRUBJAY_NOTIFY_ON": "failed needs_you"}
    done = jay("notify", "list")

    assert done.stdout.decode() == "1  json://…  needs_you failed\n"
    assert json.loads(jay("notify", "list", "--json").stdout) == {
        "services": ["json://…"],
        "on": ["needs_you", "failed"],
        "muted": None,
    }


def test_muting_needs_a_server_and_says_so(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")

    assert "start one with 'scrubjay up'" in jay.error("notify", "mute", "nap", code=1)


def test_a_pod_is_muted_and_unmuted_by_the_server(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    with _server(jay):
        jay.wait_for(lambda: _is_known(jay, "nap"))
        assert json.loads(jay("notify", "mute", "nap", "--json").stdout) == {"pod": "nap", "muted": True, "for_s": None}
        assert b"again notifications of nap" in jay("notify", "unmute", "nap").stderr
        assert "there is no pod 'nobody'" in jay.error("notify", "mute", "nobody", code=1)


def test_a_pod_is_muted_for_a_while(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    with _server(jay):
        jay.wait_for(lambda: _is_known(jay, "nap"))
        assert b"no more notifications of nap for 1h30m" in jay("notify", "mute", "nap", "--for", "1h30m").stderr
        assert re.search(rb"^muted: nap for 1h(29|30)m", jay("notify", "list").stdout, re.MULTILINE)
        (muted,) = json.loads(jay("notify", "list", "--json").stdout)["muted"]
        assert abs(muted["until_us"] / 1e6 - time.time() - 5400) < 60
        jay("notify", "mute", "nap", "--for", "1s")
        jay.wait_for(lambda: json.loads(jay("notify", "list", "--json").stdout)["muted"] == [])
        jay("notify", "mute", "nap")
        assert json.loads(jay("notify", "list", "--json").stdout)["muted"] == [{"name": "nap", "until_us": None}]


@pytest.mark.parametrize("span", ["soon", "0", "-5m", "50%", "12:30", "@7", ""])
def test_a_span_that_is_none_is_said_to_be(jay: Jay, span: str) -> None:
    assert "is not a" in jay.error("notify", "mute", "nap", "--for", span, code=2)


def _is_known(jay: Jay, name: str) -> bool:
    asked = subprocess.run([*jay.argv, "notify", "unmute", name], env=jay.env, cwd=jay.work, capture_output=True)
    return asked.returncode == 0
