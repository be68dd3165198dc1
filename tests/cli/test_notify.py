"""Notifications from the command line: whether they arrive, where they go, and which pods are left out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.notification_inbox import SECRET, Inbox, open_inbox
from tests.support.up_process import UpProcess


@pytest.fixture
def inbox() -> Generator[Inbox]:
    with open_inbox() as opened:
        yield opened


def test_a_test_message_goes_to_every_place_and_each_answer_is_said(cli: Cli, inbox: Inbox) -> None:
    with open_inbox() as other:
        cli.env["SCRUBJAY_NOTIFY"] = f"{inbox.url} {other.url}"
        done = cli("notify", "test")

        assert done.stdout.decode() == "1  json://…  sent\n2  json://…  sent\n"
        assert inbox.titles() == other.titles() == ["Scrubjay says hello"]


def test_a_place_that_does_not_take_it_is_told_apart_without_its_url(cli: Cli, inbox: Inbox) -> None:
    with open_inbox() as broken:
        broken.refuse = 10
        cli.env["SCRUBJAY_NOTIFY"] = f"{inbox.url} {broken.url} nosuch://{SECRET}"
        done = cli("notify", "test", code=1)
        rows = json.loads(cli("notify", "test", "--json", code=1).stdout)

    assert [row["sent"] for row in rows] == [True, False, False]
    assert "503" in rows[1]["error"]
    assert rows[2] == {"service": "nosuch://…", "sent": False, "error": "Apprise does not understand the URL"}
    assert SECRET not in (done.stdout + done.stderr).decode() + json.dumps(rows)
    assert done.stderr == b""


def test_a_url_can_be_tried_before_it_is_set_up(cli: Cli, inbox: Inbox) -> None:
    assert cli("notify", "test", "--url", inbox.url).stdout.decode() == "1  json://…  sent\n"


def test_with_nobody_to_notify_it_says_how_to_set_somebody_up(cli: Cli) -> None:
    assert "there is nobody to notify; set notify_urls" in cli.error("notify", "test", code=2)
    assert b"there is nobody to notify" in cli("notify", "list").stderr


def test_places_are_listed_by_their_service_alone(cli: Cli, inbox: Inbox) -> None:
    cli.env |= {"SCRUBJAY_NOTIFY": inbox.url, "SCRUBJAY_NOTIFY_ON": "failed needs_you"}
    done = cli("notify", "list")

    assert done.stdout.decode() == "1  json://…  needs_you failed\n"
    assert json.loads(cli("notify", "list", "--json").stdout) == {
        "services": ["json://…"],
        "on": ["needs_you", "failed"],
        "muted": None,
    }


def test_muting_needs_a_server_and_says_so(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")

    assert "start one with 'scrubjay up'" in cli.error("notify", "mute", "nap", code=1)


def _start(cli: Cli, name: str) -> None:
    """Start a pod, and wait until the server knows it."""
    cli("run", "-d", "--name", name, "--", "sleep", "60")
    cli.wait_for(lambda: name in {session["name"] for session in cli.json("sessions")})


def test_a_pod_is_muted_and_unmuted_by_the_server(served: UpProcess) -> None:
    cli = served.cli
    _start(cli, "nap")

    assert json.loads(cli("notify", "mute", "nap", "--json").stdout) == {"pod": "nap", "muted": True, "for_s": None}
    assert b"again notifications of nap" in cli("notify", "unmute", "nap").stderr
    assert "there is no pod 'nobody'" in cli.error("notify", "mute", "nobody", code=1)


def test_a_pod_is_muted_for_a_while(served: UpProcess) -> None:
    cli = served.cli
    _start(cli, "doze")

    def muted() -> list[dict[str, Any]]:
        return json.loads(cli("notify", "list", "--json").stdout)["muted"]

    before = time.time()
    assert b"no more notifications of doze for 1h30m" in cli("notify", "mute", "doze", "--for", "1h30m").stderr
    assert re.search(rb"^muted: doze for 1h(2\d|30)m", cli("notify", "list").stdout, re.MULTILINE)
    (told,) = muted()
    assert before + 5400 <= told["until_us"] / 1e6 <= time.time() + 5400
    cli("notify", "mute", "doze", "--for", "1s")
    cli.wait_for(lambda: muted() == [])
    cli("notify", "mute", "doze")
    assert muted() == [{"name": "doze", "until_us": None}]


def test_a_span_that_is_none_is_said_to_be(cli: Cli) -> None:
    for span in ("soon", "0", "-5m", "50%", "12:30", "@7", ""):
        assert "is not a" in cli.error("notify", "mute", "nap", "--for", span, code=2), span
