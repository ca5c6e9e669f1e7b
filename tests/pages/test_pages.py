"""What holds of every page. The list of pages is made from the routes."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.routing import iter_route_contexts
from httpx import Client, Response

from app.pages.rendering import templates
from tests.fixtures.console import SignIn
from tests.fixtures.pages import Page, policy_of

STATIC = Path(__file__).parents[2] / "app" / "pages" / "static"
INLINE_STYLES = {"/docs"}
FRAMED = {"/embed"}


def page_paths(app: FastAPI) -> list[str]:
    """Return the path of every page that can be visited, its parameters filled in."""
    routes = iter_route_contexts(app.routes)
    pages = [route.path for route in routes if getattr(route, "response_class", None) is HTMLResponse]
    return sorted(re.sub(r"{[^}]+}", "1", path) for path in pages)


def check_headers(path: str, response: Response) -> None:
    policy = policy_of(response)
    nonce = policy["script-src"][0].removeprefix("'nonce-").removesuffix("'")
    assert len(nonce) >= 16
    assert policy == {
        "default-src": ["'none'"],
        "script-src": [f"'nonce-{nonce}'"],
        "style-src": ["'self'", "'unsafe-inline'"] if path in INLINE_STYLES else ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "form-action": policy["form-action"],
        "frame-ancestors": policy["frame-ancestors"] if path in FRAMED else ["'none'"],
        "base-uri": ["'none'"],
    }
    assert policy["form-action"] in (["'self'"], ["'none'"])
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cache-Control"] in ("no-cache", "no-store")


def test_every_page_is_strict_complete_and_loads_nothing_from_elsewhere(
    usual_app: FastAPI, client: Client, sign_in: SignIn
) -> None:
    paths, visitor = page_paths(usual_app), sign_in("admin")
    assert {"/", "/docs"} <= set(paths)
    loads = set()
    for path in paths:
        response = visitor.get(path)
        if response.is_redirect:
            continue
        assert response.status_code in (200, 401, 403, 404, 405, 422), (path, response.text)
        check_headers(path, response)
        page = Page(response)
        nonces = {script.get("nonce") for script in page.all(".//script")}
        used = {value for element in page.root.iter() for name, value in element.items() if name == "hx-nonce"}
        assert nonces | used <= {policy_of(response)["script-src"][0][7:-1]}, path
        assert page.inline == [], path
        assert page.one("html").get("lang") == "en", path
        assert page.text("html/head/title"), path
        assert all(load.startswith("/static/") for load in page.loads), path
        loads |= set(page.loads)
        ids = [element.get("id") for element in page.root.iter() if element.get("id")]
        assert len(ids) == len(set(ids)), path
        for element in page.root.iter():
            if any(name.startswith("hx-") for name in element.attrib):
                assert element.get("hx-nonce") or element.get("hx-nonce:inherited"), (path, element.attrib)
    for load in loads:
        answer = client.get(load)
        assert answer.status_code == 200, load
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_no_two_answers_share_a_nonce(client: Client) -> None:
    assert len({policy_of(client.get("/"))["script-src"][0] for _ in range(5)}) == 5


def test_every_template_is_one_that_jinja_can_read() -> None:
    names = templates.list_templates(extensions=["html"])
    assert "templates/layout.html" in names
    for name in names:
        templates.get_template(name)


def test_the_links_at_the_top_lead_to_pages(client: Client) -> None:
    page = Page(client.get("/"))
    links = [link.get("href", "") for link in page.all(".//nav/a")]
    assert links[0] == "/"
    for link in links:
        answer = client.get(link, follow_redirects=True)
        assert answer.status_code in (200, 401), link
        assert Page(answer).text(".//title"), link


def test_pages_are_compressed(client: Client) -> None:
    plain = client.get("/", headers={"Accept-Encoding": "identity"})
    small = client.get("/", headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert int(small.headers["content-length"]) < len(plain.content) == len(small.content)
    assert "Accept-Encoding" in small.headers["Vary"]
    style = client.get(next(load for load in Page(plain).loads if load.endswith(".css")))
    assert style.headers["content-encoding"] == "gzip"
    assert style.headers["content-type"].startswith("text/css")


def test_files_are_not_sent_twice_and_those_of_another_release_are_checked_again(client: Client) -> None:
    address = next(load for load in Page(client.get("/")).loads if load.endswith("htmx.min.js"))
    first = client.get(address)
    again = client.get(address, headers={"If-None-Match": first.headers["ETag"]})
    other = client.get(re.sub("/static/[^/]+/", "/static/0123/", address))

    assert first.headers["content-type"].startswith("text/javascript")
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert (other.content, other.headers["Cache-Control"]) == (first.content, "no-cache")


@pytest.mark.parametrize("name", ["nothing.js", "..%2fassets.py", "%2e%2e%2f%2e%2e%2frendering.py", "vendor", ""])
def test_nothing_else_is_served(client: Client, assert_problem: Callable[..., Any], name: str) -> None:
    assert_problem(client.get(f"/static/1/{name}"), 404, "not-found")


@pytest.mark.parametrize("folder", ["swagger", "vendor"])
def test_the_files_of_others_are_those_that_were_written_down(folder: str) -> None:
    hashes = re.findall(r"^([0-9a-f]{64})  (\S+)$", (STATIC / folder / "README.md").read_text(), re.MULTILINE)

    ours = {"start.js"}
    assert {name for _, name in hashes} == {
        path.name for path in (STATIC / folder).iterdir() if path.suffix in (".js", ".css")
    } - ours
    for digest, name in hashes:
        assert hashlib.sha256((STATIC / folder / name).read_bytes()).hexdigest() == digest


def test_the_api_page_starts_swagger_ui_on_our_description(client: Client) -> None:
    page = Page(client.get("/docs"))
    start = client.get(next(load for load in page.loads if load.endswith("start.js")))
    described = re.findall(r'url: "([^"]+)"', start.text)

    assert len(described) == 1
    assert client.get(urljoin("/docs", described[0])).json()["info"]["title"] == "Stable Arena"
    assert "/" in page.links, "the way back"
