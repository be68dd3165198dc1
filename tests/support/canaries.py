"""Secrets that belong to nobody, of twenty kinds, to be looked for where they must not be."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

_ALNUM = ascii_letters + digits


@dataclass(frozen=True, slots=True)
class Canary:
    """One of them."""

    kind: str
    variable: str  #: that it is given to a program in
    value: str  #: of the variable
    printed: str  #: how it stands in a text, as its shape or with its name
    secrets: tuple[str, ...]  #: what must not be found; several lines of a long one


def make_canaries(each: int = 3, seed: int = 17) -> list[Canary]:
    """So many of every kind, always the same ones."""
    rng = Random(seed)
    return [_make(kind, number, rng) for kind in _KINDS for number in range(each)]


def _make(kind: str, number: int, rng: Random) -> Canary:
    name, make = _KINDS[kind]
    variable = f"CANARY{number}_{name}"
    secret = make(rng)
    match kind:
        case "pem":
            lines = tuple(secret.split("\n")[1:-1])
            return Canary(kind, variable, secret, secret, lines)
        case "url":
            value = f"postgres://app:{secret}@db.test/x"
            return Canary(kind, variable, value, value, (secret,))
        case "azure":
            value = (
                f"DefaultEndpointsProtocol=https;AccountName=jay;AccountKey={secret};EndpointSuffix=core.windows.net"
            )
            return Canary(kind, variable, value, value, (secret,))
        case "bearer":
            return Canary(kind, variable, secret, f"Authorization: Bearer {secret}", (secret,))
        case "env" | "aws_secret":
            return Canary(kind, variable, secret, f"{variable}={secret}", (secret,))
        case _:
            return Canary(kind, variable, secret, secret, (secret,))


def _some(alphabet: str, count: int) -> Callable[[Random], str]:
    return lambda rng: "".join(rng.choices(alphabet, k=count))


def _after(begin: str, alphabet: str, count: int) -> Callable[[Random], str]:
    return lambda rng: begin + _some(alphabet, count)(rng)


def _jwt(rng: Random) -> str:
    def part(text: str) -> str:
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    claims = f'{{"sub":"{rng.getrandbits(64)}","iat":{rng.getrandbits(30)}}}'
    return ".".join((part('{"alg":"HS256","typ":"JWT"}'), part(claims), _some(_ALNUM + "-_", 43)(rng)))


def _pem(rng: Random) -> str:
    body = b64encode(rng.randbytes(608)).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])


_KINDS: dict[str, tuple[str, Callable[[Random], str]]] = {
    "aws_id": ("AWS_ACCESS_KEY_ID", _after("AKIA", ascii_uppercase + "234567", 16)),
    "aws_secret": ("AWS_SECRET_ACCESS_KEY", _some(_ALNUM + "+", 40)),
    "github": ("GITHUB_TOKEN", _after("ghp_", _ALNUM, 36)),
    "github_fine": ("GH_TOKEN", _after("github_pat_11", _ALNUM, 80)),
    "openai": ("OPENAI_API_KEY", _after("sk-proj-", _ALNUM + "-_", 120)),
    "anthropic": ("ANTHROPIC_API_KEY", _after("sk-ant-api03-", _ALNUM + "-_", 95)),
    "slack": ("SLACK_BOT_TOKEN", _after("xoxb-2345678901-", _ALNUM, 24)),
    "google": ("GOOGLE_API_KEY", _after("AIza", _ALNUM + "-_", 35)),
    "stripe": ("STRIPE_SECRET_KEY", _after("sk_live_", _ALNUM, 24)),
    "npm": ("NPM_TOKEN", _after("npm_", _ALNUM, 36)),
    "pypi": ("PYPI_TOKEN", _after("pypi-AgEIcHlwaS5vcmcC", _ALNUM + "-_", 150)),
    "gitlab": ("GITLAB_TOKEN", _after("glpat-", _ALNUM + "-_", 20)),
    "azure": ("AZURE_STORAGE_CONNECTION_STRING", lambda rng: b64encode(rng.randbytes(64)).decode()),
    "hugging_face": ("HF_TOKEN", _after("hf_", ascii_letters, 34)),
    "sendgrid": ("SENDGRID_API_KEY", lambda rng: f"SG.{_some(_ALNUM, 22)(rng)}.{_some(_ALNUM, 43)(rng)}"),
    "pem": ("PRIVATE_KEY", _pem),
    "jwt": ("SESSION_JWT", _jwt),
    "url": ("DATABASE_URL", _some(_ALNUM, 16)),
    "env": ("DB_PASSWORD", _some(ascii_lowercase + digits + "!+", 14)),
    "bearer": ("SERVICE_AUTH", _some(_ALNUM, 40)),
}
