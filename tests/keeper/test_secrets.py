"""Which variables are secrets, and how they are hidden in whatever portions they come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import cast

import pytest

from scrubjay.errors import BadSetting
from scrubjay.keeper.redaction import HOLD_S, Redaction
from scrubjay.keeper.secrets import Mask, Secret, find_secrets, hide_in, hide_in_facts, looks_secret
from scrubjay.settings import read_settings
from scrubjay.tape.format import Kind
from scrubjay.tape.redaction import veil
from tests.keeper.recorder_rig import Rig
from tests.support.canaries import Canary, make_canaries
from tests.support.tiers import sized

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
PASSWORD = "hunter2-hunter2"
SECRETS = find_secrets({"GITHUB_TOKEN": TOKEN, "DB_PASSWORD": PASSWORD})
_SEQUENCE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n ]|[\u2500-\u257f]")


def _values(environment: dict[str, str], *named: str) -> set[str]:
    return {secret.value.decode() for secret in find_secrets(environment, named)}


# Which variables.


@pytest.mark.parametrize(
    "name",
    [
        *(
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "MYSQL_PWD",
            "OPENAI_API_KEY",
            "apikey",
            "GITHUB_PAT",
        ),
        *("SESSION_COOKIE", "GPG_PASSPHRASE", "GOOGLE_CREDENTIALS", "npm_config__auth", "SENTRY_DSN", "GITHUB_PAT"),
        "SLACK_WEBHOOK_URL",
    ],
)
def test_a_name_says_that_its_value_is_a_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "KEYBOARD", "GIT_AUTHOR_NAME", "SSH_AUTH_SOCK", "TOKEN_FILE", "PASSWORD_STORE_DIR"),
        *("SECRET_NAME", "AUTH_URL", "KEY_TYPE", "COLORTERM", "XDG_SESSION_ID", ""),
    ],
)
def test_a_name_says_nothing_of_the_kind(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        *("short", "true", "12345678901", "3.14159265", "/run/user/1000/keyring/ssh", "~/secrets/key.pem"),
        *("development", "aws-vault", "", "2026-03-01"),
    ],
)
def test_what_is_short_or_a_number_or_a_path_or_a_word_is_no_secret(value: str) -> None:
    assert _values({"MY_TOKEN": value}) == set()


@pytest.mark.parametrize(
    "value", ["hunter2x", "/aB3dE+fGh1jKlMnOpQrStUv", "correct-horse-battery-staple", "пароль-2026!"]
)
def test_anything_else_is(value: str) -> None:
    assert _values({"MY_TOKEN": value}) == {value}


def test_the_password_of_a_url_is_a_secret_whatever_the_variable_is_called() -> None:
    assert _values({"DATABASE": "postgres://app:s3cr3t-s3cr3t@db/x"}) == {"s3cr3t-s3cr3t"}
    assert _values({"REDIS_URL": "redis://:p%40ssw0rd1@h"}) == {"p%40ssw0rd1", "p@ssw0rd1"}
    assert _values({"DATABASE": "postgres://postgres:postgres@localhost/x"}) == set()
    assert _values({"TOKEN_SERVER": "https://auth.example.org/oauth/token1"}) == set()


def test_where_a_url_is_itself_the_secret_that_part_of_it_is_hidden() -> None:
    assert _values({"SENTRY_DSN": "https://abcdef0123456789@o1.ingest.test/1"}) == {"abcdef0123456789"}
    assert _values({"SLACK_WEBHOOK_URL": "https://hooks.test/services/T0/B0/abc1"}) == {"services/T0/B0/abc1"}


def test_a_value_of_several_lines_is_hidden_line_by_line() -> None:
    pem = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\nabc1defghijklmnopqrstuv=\n-----END KEY-----\n"

    assert _values({"DEPLOY_KEY": pem}) == {"MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn", "abc1defghijklmnopqrstuv="}


def test_the_keys_within_a_json_value_are_hidden_by_themselves_too() -> None:
    value = '{"type": "account", "private_key": "-----BEGIN\\nMIIEpAIBAAKCAQEA0Z3VS5JJ\\n-----END"}'

    found = _values({"GOOGLE_CREDENTIALS": value})

    assert {value, value.replace("\\", "\\\\").replace('"', '\\"'), "MIIEpAIBAAKCAQEA0Z3VS5JJ"} <= found
    assert not any(secret == "account" for secret in found)


def test_a_variable_can_be_named_and_one_can_be_shown() -> None:
    environment = {"LICENCE": "word", "GITHUB_TOKEN": TOKEN, "SSH_AUTH_SOCK": "/run/agent", "OTHER": "abc"}

    assert _values(environment, "LICENCE", "OTHER") == {"word", TOKEN}
    assert _values(environment, "-GITHUB_TOKEN", "SSH_AUTH_SOCK") == {"/run/agent"}
    assert _values(environment, "-*", "LICENCE") == {"word"}


def test_names_are_given_by_a_setting_and_values_are_refused_without_being_repeated() -> None:
    environ = {
        "SCRUBJAY_MASK": "LICENCE,-GITHUB_TOKEN OTHER",
        "SCRUBJAY_DATA": "/nowhere",
        "XDG_CONFIG_HOME": "/nowhere",
    }

    assert read_settings(environ, data=None).mask == ("LICENCE", "-GITHUB_TOKEN", "OTHER")
    with pytest.raises(BadSetting) as refused:
        read_settings(environ | {"SCRUBJAY_MASK": f"GITHUB_TOKEN={TOKEN}"}, data=None)

    assert TOKEN not in str(refused.value)


def test_a_thousand_lines_of_one_value_leave_room_for_the_others() -> None:
    lines = "\n".join(f"{Random(number).getrandbits(200):050x}" for number in range(1000))

    names = {secret.name for secret in find_secrets({"BIG_KEY": lines, "DB_PASSWORD": PASSWORD})}

    assert names == {"BIG_KEY", "DB_PASSWORD"}


def test_a_secret_never_shows_its_value_by_accident() -> None:
    assert TOKEN not in repr(SECRETS)


def test_a_very_long_value_is_hidden_piece_by_piece() -> None:
    value = f"{Random(1).getrandbits(40_000):010000x}"
    mask = Mask(find_secrets({"BIG_KEY": value}))

    shown = _fed(mask, [value[:3000].encode(), value[3000:].encode()], slowly=False)

    assert set(shown) <= set(veil(100))
    assert len(shown) == 10_000


# The mark.


@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 10, 11, 200])
def test_the_mark_is_as_wide_as_what_it_hides(width: int) -> None:
    assert len(veil(width)) == width
    assert ("redacted" in veil(width)) == (width >= 10)


def test_wide_characters_are_hidden_by_two_columns_each() -> None:
    mask = Mask(find_secrets({"DB_PASSWORD": "パスワード12345678"}))

    assert mask.feed("パスワード12345678|".encode()).decode() == veil(18) + "|"


# The stream.


def _fed(mask: Mask, portions: list[bytes], *, slowly: bool) -> str:
    """What is shown of portions that come at once, or so slowly that each is released before the next."""
    shown = b"".join([mask.feed(portion) + (mask.release() if slowly else b"") for portion in portions])
    return (shown + mask.release()).decode()


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("secret", [TOKEN, PASSWORD])
def test_a_secret_is_hidden_wherever_it_is_cut(secret: str, *, slowly: bool) -> None:
    text = f"a {secret}b {secret}\r\n".encode()
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            portions = [text[:first], text[first:second], text[second:]]

            shown = _fed(Mask(SECRETS), portions, slowly=slowly)

            assert secret not in shown
            assert secret[5:] not in shown
            assert len(shown) == len(text)
            assert shown.endswith("\r\n")


@pytest.mark.parametrize("slowly", [False, True])
def test_a_secret_that_comes_byte_by_byte_shows_its_first_bytes_at_most(*, slowly: bool) -> None:
    text = f"key={TOKEN}."

    shown = _fed(Mask(SECRETS), [bytes([code]) for code in text.encode()], slowly=slowly)

    assert shown == (f"key=ghp_{'*' * 36}." if slowly else f"key=gh{veil(38)}.")


def test_text_that_only_begins_like_a_secret_is_shown_as_it_is() -> None:
    mask = Mask(SECRETS)
    text = f"{TOKEN[:-1]}! hunter2-hunter {TOKEN[:12]} gh ghp_".encode()

    shown = b"".join([mask.feed(bytes([code])) for code in text])

    assert shown + mask.release() == text
    assert not mask.has_masked


def test_a_secret_may_begin_while_another_seems_to() -> None:
    mask = Mask([Secret("A", b"abababacdefg"), Secret("B", b"babacdefgh!")])

    shown = b"".join([mask.feed(bytes([code])) for code in b"xababababacdefgh!y"])

    assert b"acdefg" not in shown + mask.release()


def _coloured(secret: str) -> Iterator[str]:
    half = len(secret) // 2
    yield f"\x1b[31m{secret}\x1b[0m"
    yield f"{secret[:half]}\x1b[1;32m{secret[half:]}\x1b[0m"
    yield "".join([f"\x1b[3{number % 8}m{char}\x1b[0m" for number, char in enumerate(secret)])
    if len(secret) <= 40:
        yield "".join([f"\x1b[38;2;{number};0;7m{char}" for number, char in enumerate(secret)])


def _wrapped(secret: str) -> Iterator[str]:
    half = len(secret) // 2
    yield f"{secret[:half]}\r\n{secret[half:]}"
    yield f"{secret[:half]}\x1b[K\r\n    {secret[half:]}"
    yield f"│ {secret[:half]} │\r\n│ {secret[half:]} │"
    yield f"{secret[:half]}\x1b[7;3H{secret[half:]}"


@pytest.mark.parametrize("portion_bytes", [3, 64, 1 << 20])
@pytest.mark.parametrize("forms", [_coloured, _wrapped])
def test_colours_and_line_ends_within_a_secret_do_not_show_it(
    forms: Callable[[str], Iterator[str]], portion_bytes: int
) -> None:
    canaries = make_canaries(1 if portion_bytes == 3 else 3)
    secrets = find_secrets({canary.variable: canary.value for canary in canaries})
    for canary in canaries:
        for form in forms(canary.secrets[0]):
            text = canary.printed.replace("\n", "\r\n").replace(canary.secrets[0], form)

            shown = _fed(Mask(secrets), _cut(text.encode(), portion_bytes), slowly=False)

            assert canary.secrets[0] not in _SEQUENCE.sub("", shown), (canary.kind, form)
            assert len(shown) == len(text)


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _is_found(canary: Canary, shown: str) -> bool:
    return any(secret in shown for secret in canary.secrets)


def test_sixty_secrets_in_a_stream_of_anything_are_hidden_and_nothing_else_is() -> None:
    rng = Random(5)
    canaries = make_canaries()
    secrets = find_secrets({canary.variable: canary.value for canary in canaries})
    plain = ["\x1b[2J\x1b[H", "plain text ", "日本語", "ghp_ sk-ant- AKIA ", "\r\n"]
    words = [*(canary.printed for canary in canaries), *plain]
    for _ in range(sized(10, 40, 400)):
        text = "".join(rng.choices(words, k=50)).replace("\n", "\r\n")
        data = text.encode()
        cuts = sorted(rng.choices(range(len(data)), k=rng.choice((3, 300))))
        portions = [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]

        shown = _fed(Mask(secrets), portions, slowly=rng.random() < 0.5)

        assert not any(_is_found(canary, shown) for canary in canaries)
        assert len(shown) == len(text)
        assert shown.count("日本語") == text.count("日本語")


def test_bytes_that_are_no_text_pass_as_they_are() -> None:
    data = Random(6).randbytes(1 << 16)
    mask = Mask(SECRETS)

    assert b"".join([mask.feed(portion) for portion in _cut(data, 97)]) + mask.release() == data


def test_what_is_typed_is_hidden_without_being_kept_back() -> None:
    mask = Mask(SECRETS, waits=False)

    assert mask.feed(f"\x1b[200~{TOKEN}\x1b[201~".encode()).decode() == f"\x1b[200~{veil(40)}\x1b[201~"
    assert b"".join([mask.feed(bytes([code])) for code in b" " + TOKEN.encode()]).decode() == f" ghp_{'*' * 36}"
    assert mask.take_masked() == (["GITHUB_TOKEN"], 2)


def test_what_is_hidden_is_counted_once_however_it_came() -> None:
    mask = Mask(SECRETS)
    _fed(mask, [f"{TOKEN} {PASSWORD} {TOKEN}".encode()], slowly=False)
    assert mask.take_masked() == (["DB_PASSWORD", "GITHUB_TOKEN"], 3)

    _fed(mask, [bytes([code]) for code in TOKEN.encode()], slowly=True)
    assert mask.take_masked() == (["GITHUB_TOKEN"], 1)
    assert not mask.has_masked


def test_notes_lose_their_secrets_too() -> None:
    assert hide_in(SECRETS, f"curl -H {TOKEN}") == f"curl -H {veil(40)}"
    assert hide_in_facts(SECRETS, ["a", PASSWORD, 7]) == ["a", veil(15), 7]


# Onto the tape.


class _Stage:
    """A redaction on a recorder, with a time that passes when it is told to."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rig = Rig(root)
        self.now = 100.0
        self._timers: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.redaction = Redaction(
            SECRETS,
            self.rig.recorder,
            show=lambda parts: self.rig.recorder.output(*parts),
            later=lambda seconds, call: self._timers.append((self.now + seconds, call)),
        )

    def pass_time(self, seconds: float) -> None:
        """Let it pass, and call back whoever wanted that."""
        end = self.now + seconds
        while due := [timer for timer in self._timers if timer[0] <= end]:
            first = min(due, key=lambda timer: timer[0])
            self._timers.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = end

    def notes(self) -> list[tuple[list[str], int]]:
        """Names and counts of what was hidden."""
        self.rig.recorder.flush()
        records = [record.json() for record in self.rig.records(Kind.EVENT)]
        return [
            (cast(list[str], said["names"]), cast(int, said["count"]))
            for said in records
            if said["event"] == "secret.masked"
        ]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Stage:
    """An empty one."""
    return _Stage(tmp_path, monkeypatch)


def test_half_a_secret_appears_after_a_moment(stage: _Stage) -> None:
    stage.redaction.show([b"wait " + TOKEN[:20].encode()])
    assert stage.rig.output() == b"wait "

    stage.pass_time(HOLD_S / 2)
    assert stage.rig.output() == b"wait "
    stage.pass_time(HOLD_S)

    assert stage.rig.output().decode() == f"wait ghp_{veil(16)}"


def test_each_beginning_is_kept_back_for_its_own_moment(stage: _Stage) -> None:
    stage.redaction.show([b"ghp_"])
    stage.pass_time(HOLD_S * 0.75)
    stage.redaction.show([b" ghp_"])
    assert stage.rig.output() == b"ghp_ "
    stage.pass_time(HOLD_S * 0.75)
    assert stage.rig.output() == b"ghp_ "

    stage.pass_time(HOLD_S * 0.3)

    assert stage.rig.output() == b"ghp_ ghp_"


def test_a_secret_that_keeps_coming_is_not_kept_back_for_longer_than_a_moment(stage: _Stage) -> None:
    for code in TOKEN.encode():
        stage.redaction.show([bytes([code])])
        stage.pass_time(HOLD_S / 3)

    assert stage.rig.output().decode().startswith("ghp_")
    assert "abc" not in stage.rig.output().decode()
    assert len(stage.rig.output().decode()) == len(TOKEN)


def test_nothing_is_released_onto_a_full_disk(stage: _Stage) -> None:
    stage.redaction.show([b"ghp_"])
    stage.rig.fill()
    stage.rig.recorder.output(b"x" * 10_000)
    assert stage.rig.recorder.paused is not None

    stage.pass_time(HOLD_S * 5)
    assert not stage.redaction.release()
    stage.rig.free()
    stage.rig.clock.advance(1)
    stage.rig.settle()
    stage.pass_time(HOLD_S * 2)

    assert stage.rig.output().endswith(b"ghp_")
    assert not stage.rig.records(Kind.GAP)


def test_it_is_noted_what_was_hidden_and_by_which_name(stage: _Stage) -> None:
    stage.redaction.show([f"{TOKEN} and {PASSWORD}\n".encode()])

    assert stage.notes() == [(["DB_PASSWORD", "GITHUB_TOKEN"], 2)]
    kinds = [record.kind for record in stage.rig.records()]
    assert kinds[-2:] == [Kind.OUTPUT, Kind.EVENT]


def test_a_loop_that_prints_a_secret_is_noted_once_a_second(stage: _Stage) -> None:
    for _ in range(1000):
        stage.redaction.show([f"{TOKEN}\n".encode()])
        stage.pass_time(0.0031)
    stage.redaction.note()

    assert 4 <= len(stage.notes()) <= 5
    assert sum(count for _, count in stage.notes()) == 1000


def test_a_secret_that_was_typed_is_noted_after_it(stage: _Stage) -> None:
    kept = stage.redaction.typed(TOKEN.encode(), hidden=False)
    stage.rig.recorder.typed(kept, "ann", hidden=False)
    stage.pass_time(0)

    assert stage.notes() == [(["GITHUB_TOKEN"], 1)]
    assert [record.kind for record in stage.rig.records()][-2:] == [Kind.INPUT, Kind.EVENT]


def test_what_is_typed_while_it_is_hidden_is_left_to_be_counted(stage: _Stage) -> None:
    assert stage.redaction.typed(TOKEN.encode(), hidden=True) == TOKEN.encode()
    stage.pass_time(2)

    assert stage.notes() == []
