"""Logging in with a real browser: the cookie is taken over plain HTTP on loopback, and sent where it should be."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Generator

import pytest

from tests.support.chromium import Chromium, Page
from tests.support.guarded_server_process import GuardedServerProcess

_ME = "fetch('/api/v1/me').then(answer => answer.status)"
_POST = """fetch('/api/v1/pods', {method: 'POST', body: '{}', headers: {'content-type': 'application/json'}})
  .then(answer => answer.status)"""
_SOCKET = """new Promise(tell => {
  const socket = new WebSocket(location.origin.replace('http', 'ws') + '/api/v1/pods/%s/live');
  socket.onopen = () => socket.send('hello');
  socket.onmessage = (message) => tell(message.data);
  socket.onclose = (close) => tell('closed ' + close.code);
})"""


@pytest.fixture(scope="module")
def chromium() -> Generator[Chromium]:
    browser = Chromium()
    yield browser
    browser.close()


def _logged_in(page: Page) -> bool:
    return page.evaluate(_ME) == 200


@pytest.mark.parametrize("number", [0, 1], ids=["127.0.0.1", "localhost"])
def test_a_link_logs_a_browser_in_and_its_cookie_goes_with_requests_and_websockets(
    chromium: Chromium, guarded_process: GuardedServerProcess, number: int
) -> None:
    link = guarded_process.logins[number]
    assert link.startswith(("http://127.0.0.1:", "http://localhost:")[number])

    with chromium.page(link, sites=[guarded_process.url]) as page:
        assert page.evaluate("location.pathname + location.search") == "/"
        assert _logged_in(page)
        assert page.evaluate(_SOCKET % guarded_process.pod) == '{"heard": 5}'
        assert page.evaluate("document.cookie") == ""
        assert page.evaluate(_POST) == 200
        # The same link again, out of the terminal's history.
        page.do("visit", url=link)
        assert page.evaluate("location.pathname") == "/"
        assert _logged_in(page)

        assert page.evaluate("fetch('/logout', {method: 'POST'}).then(answer => answer.status)") == 204

        assert page.evaluate(_ME) == 401
        assert page.evaluate(_SOCKET % guarded_process.pod) == "closed 1006"
        assert [did for did in page.did if "401" not in did and "WebSocket" not in did] == []


def test_a_used_link_says_so_and_how_to_get_another(chromium: Chromium, guarded_process: GuardedServerProcess) -> None:
    link = guarded_process.logins[2]
    with chromium.page(link, sites=[guarded_process.url]) as page:
        assert _logged_in(page)

    with chromium.page(link, sites=[guarded_process.url]) as another:
        assert "scrubjay login" in another.evaluate("document.body.innerText")
        assert not _logged_in(another)


@pytest.fixture
def elsewhere(guarded_process: GuardedServerProcess) -> Generator[str]:
    """The page of another server, at another port of the same host: the same site, and not ours."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f"<a href='{guarded_process.logins[4]}'>log in</a><p>elsewhere".encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        serving.join()


def test_s2_a_page_at_another_port_of_the_same_host_cannot_use_the_login(
    chromium: Chromium, guarded_process: GuardedServerProcess, elsewhere: str
) -> None:
    url = guarded_process.url
    with chromium.page(guarded_process.logins[6], sites=[url, elsewhere]) as page:
        assert _logged_in(page)
        page.do("visit", url=elsewhere)
        assert page.evaluate("document.body.innerText").endswith("elsewhere")

        told = "() => 'read', () => 'no'"
        tried = [
            f"fetch('{url}/api/v1/me', {{credentials: 'include'}}).then({told})",
            f"fetch('{url}/logout', {{method: 'POST', mode: 'no-cors', credentials: 'include'}}).then({told})",
            f"""new Promise(tell => {{
                const socket = new WebSocket('{url.replace("http", "ws")}/api/v1/flood');
                socket.onopen = () => tell('open');
                socket.onclose = () => tell('no');
            }})""",
            f"""new Promise(tell => {{
                const frame = document.createElement('iframe');
                frame.src = '{url}/';
                frame.onload = () => {{ try {{ tell(frame.contentDocument ? 'mine' : 'no') }} catch {{ tell('no') }} }};
                document.body.append(frame);
            }})""",
        ]
        assert [page.evaluate(script) for script in tried] == ["no"] * 4
        page.do("visit", url=url + "/")
        assert _logged_in(page)


def test_a_login_link_on_a_page_of_another_site_logs_in_too(
    chromium: Chromium, guarded_process: GuardedServerProcess, elsewhere: str
) -> None:
    foreign = elsewhere.replace("127.0.0.1", "localhost")
    with chromium.page(foreign, sites=[guarded_process.url, foreign]) as page:
        page.click("a")
        page.wait("location.pathname === '/' && document.body.innerText === 'fine'")

        assert _logged_in(page)
