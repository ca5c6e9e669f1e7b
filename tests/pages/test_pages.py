import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from httpx import Client, Response

STATIC = Path(__file__).parents[2] / "app" / "pages" / "static"


class Page(HTMLParser):
    """The links of a page, and what would run or be styled inside it."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.inline: list[str] = []
        self._open = ""
        self.feed(response.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        found = dict(attrs)
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        if tag == "a":
            self.links.append(found["href"] or "")
        elif tag in ("script", "img"):
            self.loads.append(found["src"] or "")
        elif tag == "link":
            self.loads.append(found["href"] or "")

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style") and data.strip():
            self.inline.append(data)


def policy_of(response: Response) -> dict[str, list[str]]:
    directives = (part.split() for part in response.headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, *sources in directives}


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_loads_nothing_from_elsewhere_and_has_no_script_inside(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    page, policy = Page(response), policy_of(response)

    assert page.inline == []
    assert policy["default-src"] == ["'none'"]
    assert "'unsafe-inline'" not in policy.get("script-src", [])
    assert {source for sources in policy.values() for source in sources} <= {
        "'none'",
        "'self'",
        "data:",
        "'unsafe-inline'",
    }
    for load in page.loads:
        assert load == "data:," or not urlsplit(load).netloc
        assert load == "data:," or client.get(urljoin(path, load)).status_code == 200, load


def test_the_front_page_links_to_the_api_and_the_leaderboard(client: Client) -> None:
    links = [urljoin("/", link) for link in Page(client.get("/")).links]

    assert {"/docs", "/api/v1/leaderboard"} <= set(links)
    problems = [client.get(link) for link in links if client.get(link).status_code != 200]
    assert {problem.json()["type"] for problem in problems} == {"/problems/no-snapshot"}, "there are no snapshots yet"


def test_the_api_page_starts_swagger_ui_on_our_description(client: Client) -> None:
    start = client.get("/docs/start.js")
    described = re.findall(r'url: "([^"]+)"', start.text)

    assert start.headers["content-type"].startswith("text/javascript")
    assert len(described) == 1
    assert client.get(urljoin("/docs", described[0])).json()["info"]["title"] == "Stable Arena"
    assert client.get("/docs/swagger-ui.css").headers["content-type"].startswith("text/css")


def test_files_of_the_api_page_are_not_sent_twice(client: Client) -> None:
    first = client.get("/docs/swagger-ui-bundle.js")
    again = client.get("/docs/swagger-ui-bundle.js", headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2fhome.html", "%2e%2e%2f%2e%2e%2fendpoints.py"])
def test_nothing_else_is_served(client: Client, assert_problem: Callable[..., Any], name: str) -> None:
    assert client.get(f"/docs/{name}").status_code == 404


def test_the_files_of_others_are_those_that_were_written_down() -> None:
    hashes = re.findall(r"^([0-9a-f]{64})  (\S+)$", (STATIC / "docs" / "README.md").read_text(), re.MULTILINE)

    assert [name for _, name in hashes] == ["swagger-ui-bundle.js", "swagger-ui.css"]
    for digest, name in hashes:
        assert hashlib.sha256((STATIC / "docs" / name).read_bytes()).hexdigest() == digest
