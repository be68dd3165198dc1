"""How a browser comes in and goes: a link that works once, a cookie after that.

The page at ``/`` needs no login, only what it fetches does. So it does not matter that a browser which came here by a
link of another site leaves a ``SameSite=Strict`` cookie out of that first request.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from scrubjay.fleet.access import Principal
from scrubjay.server.credentials import BROWSER_S, cookie_name, read_cookies, set_cookie
from scrubjay.server.gate import Gate
from scrubjay.server.guard import ORIGIN, principal_of
from scrubjay.server.origins import Origin
from scrubjay.server.refusals import error_body

# What browsers say when they fetch a link before anybody has followed it.
_AHEAD_OF_TIME = {"sec-purpose": "prefetch", "purpose": "prefetch", "x-purpose": "preview", "x-moz": "prefetch"}
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Scrubjay</title>
<h1>{title}</h1>
<p>{text}</p>
<pre>scrubjay login</pre>
<p>prints a new link.</p>
</html>
"""


def login_link(origin: Origin, code: str) -> str:
    """The link that logs a browser in."""
    return f"{origin}/login?code={code}"


class Login:
    """The routes of logging in and out."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for the application."""
        return [
            Route("/login", self._log_in, methods=["GET"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _log_in(self, request: Request) -> Response:
        if request.method == "HEAD" or _is_ahead_of_time(request):
            return Response(status_code=503)  # the code stays good for the person who follows the link
        name = _cookie_name(request)
        before = await self._logged_in(request, name)
        browser = await self._gate.credentials.log_in(request.query_params.get("code", ""), instead_of=before)
        if browser is not None:
            if before is not None:
                await self._gate.put_out(before.id, reason="logged in again")
            cookie = set_cookie(name, browser.cookie, max_age_s=BROWSER_S)
            return RedirectResponse("/", status_code=303, headers={"set-cookie": cookie})
        if before is not None:  # the same link once more, out of the terminal's history
            return RedirectResponse("/", status_code=303)
        wait_s = self._gate.failures.note(request.client.host if request.client else "")
        if wait_s is not None:
            page = _PAGE.format(title="Too many bad links", text=f"Wait {wait_s} seconds; then")
            return HTMLResponse(page, status_code=429, headers={"retry-after": str(wait_s)})
        text = "It works once, within ten minutes, and was used or is too old. On the machine of the server,"
        return HTMLResponse(_PAGE.format(title="This link does not work any more", text=text), status_code=410)

    async def _logged_in(self, request: Request, name: str) -> Principal | None:
        cookies = read_cookies(request.headers.getlist("cookie"), name)
        return await self._gate.credentials.check_cookie(cookies[0]) if len(cookies) == 1 else None

    async def _log_out(self, request: Request) -> Response:
        principal = principal_of(request.scope)
        if not principal.id.startswith("browser:"):
            error = error_body("not_logged_in", "only a browser logs out", "'scrubjay token revoke' ends a token")
            return JSONResponse(error, status_code=400)
        await self._gate.credentials.log_out(principal)
        response = Response(status_code=204, headers={"set-cookie": set_cookie(_cookie_name(request), "", max_age_s=0)})
        await self._gate.put_out(principal.id, reason="logged out")
        return response


def _cookie_name(request: Request) -> str:
    origin: Origin | None = request.scope[ORIGIN]
    return cookie_name(0 if origin is None else origin.port)


def _is_ahead_of_time(request: Request) -> bool:
    return any(word in request.headers.get(name, "").lower() for name, word in _AHEAD_OF_TIME.items())
