"""One frozen class of options per process, filled in once at the edge and passed down.

A setting has one name: the key in the file, and ``SCRUBJAY_`` and the same in capitals in the environment.
docs/settings.md lists every field; a test holds the two together.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from scrubjay.errors import BadSetting

WhenFull = Literal["pause", "best_effort"]
NoticeKind = Literal["needs_you", "failed", "done", "deadlock", "starving"]
TypeMessages = Literal["agents", "all", "none"]
LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]

SYNC_MS_DEFAULT = 200  # a power cut loses at most this; a sync per record costs nine times as much
PORT_DEFAULT = 8477
_SYNC_MS_MAX = 60_000
_SECONDS_MAX = 7 * 86_400
_WHEN_FULL: tuple[WhenFull, ...] = get_args(WhenFull)
_NOTICE_KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)
_TYPE_MESSAGES: tuple[TypeMessages, ...] = get_args(TypeMessages)
_LOG_FORMATS: tuple[LogFormat | None, ...] = get_args(LogFormat)
_LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
_VARIABLES = {"notify_urls": "SCRUBJAY_NOTIFY"}  # where it is not the setting's name
# Names and addresses, as they stand in a Host header without the port.
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,252}[a-z0-9])?\.?|[0-9a-f:.]*:[0-9a-f:.]+")
_VARIABLE = re.compile(r"-?[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = re.compile(r"[0-9]{1,18}")
_ENDPOINT = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+=,/-]*)?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://\S")

_Choice = TypeVar("_Choice")


def _host_name() -> str:
    return os.uname().nodename or "localhost"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line was told by flags, environment and file."""

    data: Path
    """Where recordings are kept (``--data``, ``SCRUBJAY_DATA``; by default ``scrubjay`` under ``XDG_STATE_HOME``)."""

    sync_ms: int = SYNC_MS_DEFAULT
    """The longest a recorded byte waits for the disk while output flows."""

    when_full: WhenFull = "pause"
    """On a full disk, ``pause`` the agent or go on with ``best_effort`` and a gap."""

    term: str = "xterm-256color"
    """The terminal type agents are told they have."""

    mask: tuple[str, ...] = ()
    """Variables whose values are hidden besides those that look secret; with ``-`` before it, one that is not."""

    agents: Path | None = None
    """Where your own manifests of agents are; by default ``agents`` next to the settings file."""

    mcp: bool = True
    """Whether agents are given the tools of the server, where there is one."""

    host: str = "127.0.0.1"
    """The address the server listens on."""

    port: int = PORT_DEFAULT
    """The port the server listens on; 0 takes any that is free."""

    names: tuple[str, ...] = ()
    """Further host names the server answers to, in small letters."""

    tls_cert: Path | None = None
    """The server's certificate; with ``tls_key`` it speaks HTTPS."""

    tls_key: Path | None = None
    """The key of the certificate."""

    runner_name: str = field(default_factory=_host_name)
    """What this machine is called in the fleet."""

    notify_urls: tuple[str, ...] = field(default=(), repr=False)
    """Where notifications go, as Apprise URLs; each is a secret: show it with ``mask_url`` only."""

    notify_on: tuple[NoticeKind, ...] = _NOTICE_KINDS
    """What to notify of."""

    notify_done_after_s: int = 300
    """How long work must have taken for its end to be news."""

    notify_quiet_s: int = 600
    """How long the same thing is not told again."""

    starving_after_s: int = 1800
    """How long a wait without a deadline may take before people are told."""

    lease_s: int = 60
    """How long somebody holds a session without being heard of."""

    resume_within_days: int = 30
    """How long a session that nobody holds can be resumed without saying that it is to be reopened."""

    capture_turns: bool = True
    """Whether turns that agents' hooks tell of are remembered without the agents' help."""

    summary_command: tuple[str, ...] = ()
    """A program and its arguments that makes summaries: turns on its standard input, a summary on its output."""

    summary_url: str | None = None
    """An OpenAI-compatible endpoint that makes them instead, such as ``http://127.0.0.1:11434/v1``."""

    summary_model: str | None = None
    """The model that is asked for there."""

    summary_key_variable: str | None = None
    """The variable of the server's environment that has the key for it."""

    summarise_after_s: int = 300
    """How long nobody must have held a session before it is summarised."""

    type_messages: TypeMessages = "agents"
    """Into whose terminal messages are typed when it is idle: known ``agents``, ``all`` programs or ``none``."""

    log_format: LogFormat | None = None
    """How the server writes its log; None is text on a terminal and JSON elsewhere."""

    log_level: LogLevel = "info"
    """The least important lines of the log that are written."""


def read_settings(environ: Mapping[str, str], *, data: Path | None, config: Path | None = None) -> Settings:
    """Flags first, then the environment, then the file, then the defaults; BadSetting names what cannot be used."""
    named = config is not None or bool(environ.get("SCRUBJAY_CONFIG"))
    file = config_path(environ, config)
    given = _Given(environ, file, required=named)
    tls_cert, tls_key = given.path("tls_cert"), given.path("tls_key")
    if (tls_cert is None) != (tls_key is None):
        one, other = ("tls_cert", "tls_key") if tls_key is None else ("tls_key", "tls_cert")
        raise BadSetting(f"{one} is set and {other} is not", hint="set both to serve HTTPS, or neither")
    summary_command, summary_url = given.command("summary_command"), given.endpoint("summary_url")
    summary_model, summary_key_variable = given.text("summary_model"), given.variable("summary_key_variable")
    if summary_command and summary_url is not None:
        raise BadSetting("summary_command and summary_url are both set", hint="set one of them, or neither")
    if summary_url is not None and summary_model is None:
        raise BadSetting("summary_url is set and summary_model is not", hint="name the model to ask for there")
    for name, value in (("summary_model", summary_model), ("summary_key_variable", summary_key_variable)):
        if value is not None and summary_url is None:
            raise BadSetting(f"{name} is set and summary_url is not", hint=f"set summary_url, or leave {name} out")
    return Settings(
        data=(data if data is not None else given.path("data") or _data_folder(environ)).absolute(),
        sync_ms=given.whole("sync_ms", SYNC_MS_DEFAULT, 1, _SYNC_MS_MAX, "a number of milliseconds"),
        when_full=given.choice("when_full", _WHEN_FULL, "a way to go on", default="pause"),
        term=given.text("term") or "xterm-256color",
        mask=given.variables("mask"),
        agents=given.path("agents") or file.parent / "agents",
        mcp=given.switch("mcp", default=True),
        host=given.host("host") or "127.0.0.1",
        port=given.whole("port", PORT_DEFAULT, 0, 65535, "a port"),
        names=given.names("names"),
        tls_cert=tls_cert,
        tls_key=tls_key,
        runner_name=given.text("runner_name") or _host_name(),
        notify_urls=given.urls("notify_urls"),
        notify_on=given.notice_kinds("notify_on"),
        notify_done_after_s=given.whole("notify_done_after_s", 300, 0, _SECONDS_MAX, "a number of seconds"),
        notify_quiet_s=given.whole("notify_quiet_s", 600, 0, _SECONDS_MAX, "a number of seconds"),
        starving_after_s=given.whole("starving_after_s", 1800, 1, _SECONDS_MAX, "a number of seconds"),
        lease_s=given.whole("lease_s", 60, 1, _SECONDS_MAX, "a number of seconds"),
        resume_within_days=given.whole("resume_within_days", 30, 1, 36_500, "a number of days"),
        capture_turns=given.switch("capture_turns", default=True),
        summary_command=summary_command,
        summary_url=summary_url,
        summary_model=summary_model,
        summary_key_variable=summary_key_variable,
        summarise_after_s=given.whole("summarise_after_s", 300, 0, _SECONDS_MAX, "a number of seconds"),
        type_messages=given.choice("type_messages", _TYPE_MESSAGES, "a way to deliver", default="agents"),
        log_format=given.choice("log_format", _LOG_FORMATS, "a format of logs", default=None),
        log_level=given.choice("log_level", _LOG_LEVELS, "a level of logs", default="info"),
    )


def config_path(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Where the settings file is, if there is one."""
    if given is not None:
        return given.absolute()
    if named := environ.get("SCRUBJAY_CONFIG"):
        return Path(named).expanduser().absolute()
    return _xdg_folder(environ, "XDG_CONFIG_HOME", ".config") / "scrubjay" / "config.toml"


def user_name() -> str | None:
    """Who runs this process; None for a user id without a name, as in some containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


def mask_url(url: str) -> str:
    """An Apprise URL that can be shown: which service it is for, and nothing else."""
    scheme = _SCHEME.match(url)
    return f"{scheme[1].lower()}://…" if scheme is not None else "…"


def _data_folder(environ: Mapping[str, str]) -> Path:
    return _xdg_folder(environ, "XDG_STATE_HOME", ".local/state") / "scrubjay"


def _xdg_folder(environ: Mapping[str, str], name: str, otherwise: str) -> Path:
    # The specification says to ignore a relative XDG path.
    folder = Path(environ.get(name) or "")
    return folder if folder.is_absolute() else Path.home() / otherwise


class _Given:
    """What environment and file say, each value checked when it is asked for."""

    def __init__(self, environ: Mapping[str, str], path: Path, *, required: bool) -> None:
        self._environ, self._path = environ, path
        self._file = _read_file(path, required=required)

    def text(self, name: str) -> str | None:
        value = self._find(name)
        if value is None:
            return None
        if not isinstance(value.raw, str) or not value.raw or not value.raw.isprintable():
            raise value.bad("is not a text", hint=f'write {name} = "…"')
        return value.raw

    def path(self, name: str) -> Path | None:
        raw = self.text(name)
        if raw is None:
            return None
        # What stands in a file means the same from wherever a command is run.
        folder = Path() if self._from_environment(name) else self._path.parent
        return (folder / Path(raw).expanduser()).absolute()

    def whole(self, name: str, default: int, low: int, high: int, what: str) -> int:
        value = self._find(name)
        if value is None:
            return default
        number = value.raw
        if isinstance(number, str) and value.of_environment and _DIGITS.fullmatch(number):
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise value.bad(f"is not {what}", hint=f"use {low} to {high}")
        return number

    def switch(self, name: str, *, default: bool) -> bool:
        value = self._find(name)
        if value is None:
            return default
        for choice, word in ((True, "true"), (False, "false")):
            if value.raw is choice or (value.of_environment and str(value.raw).lower() == word):
                return choice
        raise value.bad("is neither on nor off", hint="use true or false, without quotes")

    def choice(self, name: str, choices: tuple[_Choice, ...], what: str, *, default: _Choice) -> _Choice:
        value = self._find(name)
        if value is None:
            return default
        for choice in choices:
            if value.raw == choice:
                return choice
        raise value.bad(f"is not {what}", hint=f"use {' or '.join(str(choice) for choice in choices)}")

    def host(self, name: str) -> str | None:
        value, raw = self._find(name), self.text(name)
        if value is not None and raw is not None and not _HOST.fullmatch(raw.lower()):
            raise value.bad("is not an address", hint="use 127.0.0.1, ::1, 0.0.0.0 or a host name, without a port")
        return raw

    def names(self, name: str) -> tuple[str, ...]:
        names: list[str] = []
        value = self._find(name)
        for raw in value.words() if value is not None else ():
            assert value is not None
            host = raw.lower().removeprefix("[").removesuffix("]")
            if not _HOST.fullmatch(host):
                raise value.bad(
                    f"has {raw!r}, which is not a host name", hint="give names alone, without http:// or port"
                )
            names.append(host)
        return tuple(names)

    def urls(self, name: str) -> tuple[str, ...]:
        value = self._find(name)
        if value is None:
            return ()
        urls = value.words(secret=True)
        for number, url in enumerate(urls, 1):
            if not _SCHEME.match(url):
                # Whatever it is, it may be a secret.
                raise BadSetting(
                    f"{value.where}: number {number} is not an Apprise URL",
                    hint="URLs are like ntfy://TOPIC or mailto://…; see https://appriseit.com/services",
                )
        return urls

    def variables(self, name: str) -> tuple[str, ...]:
        value = self._find(name)
        words = [name for word in value.words(secret=True) for name in word.split(",") if name] if value else []
        for number, word in enumerate(words, 1):
            if value is not None and word != "-*" and not _VARIABLE.fullmatch(word):
                # Whoever writes NAME=VALUE here has just told us the secret.
                raise BadSetting(
                    f"{value.where}: number {number} is not the name of a variable",
                    hint="give names alone, such as MY_LICENCE; -NAME to show one, -* to show all others",
                )
        return tuple(words)

    def variable(self, name: str) -> str | None:
        value = self._find(name)
        if value is None:
            return None
        if not isinstance(value.raw, str) or value.raw.startswith("-") or not _VARIABLE.fullmatch(value.raw):
            # Whoever writes the key itself here has just told us a secret.
            raise BadSetting(
                f"{value.where} is not the name of a variable", hint="give the name alone, such as OPENAI_API_KEY"
            )
        return value.raw

    def endpoint(self, name: str) -> str | None:
        value = self._find(name)
        if value is None:
            return None
        if not isinstance(value.raw, str) or not _ENDPOINT.fullmatch(value.raw):
            raise BadSetting(  # it may have a password in it
                f"{value.where} is not the address of an endpoint",
                hint="use one like http://127.0.0.1:11434/v1, without user, password and question mark",
            )
        return value.raw.rstrip("/")

    def command(self, name: str) -> tuple[str, ...]:
        value = self._find(name)
        if value is None:
            return ()
        words = value.words(secret=True, quoted=True)
        if words and "/" in words[0]:
            folder = Path() if value.of_environment else self._path.parent
            words = (str((folder / Path(words[0]).expanduser()).absolute()), *words[1:])
        return words

    def notice_kinds(self, name: str) -> tuple[NoticeKind, ...]:
        value = self._find(name)
        if value is None:
            return _NOTICE_KINDS
        words = value.words()
        for word in words:
            if word not in _NOTICE_KINDS:
                raise value.bad(
                    f"has {word!r}, which is nothing to notify of", hint=f"use any of {', '.join(_NOTICE_KINDS)}"
                )
        return tuple(kind for kind in _NOTICE_KINDS if kind in words)

    def _from_environment(self, name: str) -> bool:
        return bool(self._environ.get(variable(name)))

    def _find(self, name: str) -> _Value | None:
        if self._from_environment(name):
            raw = self._environ[variable(name)]
            return _Value(raw, f"{variable(name)}={raw!r}", variable(name), of_environment=True)
        if name not in self._file:
            return None
        raw = self._file[name]
        return _Value(raw, f"{name} = {raw!r} in {self._path}", f"{name} in {self._path}", of_environment=False)


@dataclass(frozen=True, slots=True)
class _Value:
    """One value somebody has set."""

    raw: object
    said: str  #: as an error names it, with its value
    where: str  #: the same without
    of_environment: bool

    def bad(self, why: str, *, hint: str) -> BadSetting:
        return BadSetting(f"{self.said} {why}", hint=hint)

    def words(self, *, secret: bool = False, quoted: bool = False) -> tuple[str, ...]:
        """Several texts: a list in the file, separated by spaces in the environment, there perhaps quoted."""
        if self.of_environment:
            return _split(str(self.raw), self.where) if quoted else tuple(str(self.raw).split())
        raw: object = self.raw
        listed = cast(list[object], raw) if isinstance(raw, list) else [None]
        words = tuple(word.strip() for word in listed if isinstance(word, str) and word.strip())
        if len(words) != len(listed):
            raise BadSetting(
                f"{self.where if secret else self.said} is not a list of texts", hint='write them as ["…", "…"]'
            )
        return words


def _split(raw: str, where: str) -> tuple[str, ...]:
    """The words of a command, as a shell would have them."""
    import shlex

    try:
        return tuple(shlex.split(raw))
    except ValueError as error:
        raise BadSetting(f"{where} has a quote without its other half", hint="quote words as in a shell") from error


def variable(name: str) -> str:
    """What a setting is called in the environment."""
    return _VARIABLES.get(name, f"SCRUBJAY_{name.upper()}")


def _read_file(path: Path, *, required: bool) -> dict[str, object]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        if not required:
            return {}
        raise BadSetting(f"there is no settings file {path}", hint="check --config or SCRUBJAY_CONFIG") from error
    except OSError as error:
        raise BadSetting(
            f"cannot read settings from {path}: {error.strerror}",
            hint="make it a file you can read, or name another with --config",
        ) from error
    import tomllib  # 5 ms that only those with a file wait for

    try:
        values = tomllib.loads(data.decode())
    except ValueError as error:
        raise BadSetting(
            f"{path} is not TOML: {error}", hint='settings are like: sync_ms = 200 or host = "::1"'
        ) from error
    known = [setting.name for setting in fields(Settings)]
    for name in values:
        if name not in known:
            raise BadSetting(f"there is no setting {name!r}, which {path} has", hint=_nearest(name, known))
    return values


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}"
