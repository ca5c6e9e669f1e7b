"""The documentation as a site, and that the service shows it without opening a door for scripts."""

import hashlib
import runpy
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client

from app.main import create_app
from app.settings import PageSettings, Settings

AssertProblem = Callable[..., dict[str, Any]]
BUILD = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "site" / "build.py"))
PAGE = '<a href="b.html#x">b</a><script>let a = 1</script><script src="a.js"></script>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text(PAGE)
    (folder / "b.html").write_text("<p>b</p>")
    (folder / "a.js").write_text("1")
    (tmp_path / "secret.txt").write_text("hush")
    return folder


@pytest.fixture
def open_site(settings: Settings, site: Path, serving: Callable[..., Any]) -> Any:
    app: FastAPI = create_app(settings.model_copy(update={"pages": PageSettings(docs_dir=site)}))
    with serving(app) as address, Client(base_url=address, timeout=120) as client:
        yield client


def test_pages_and_files_are_served_and_nothing_else(open_site: Client, assert_problem: AssertProblem) -> None:
    page = open_site.get("/docs/")
    assert page.text == PAGE
    digest = b64encode(hashlib.sha256(b"let a = 1").digest()).decode()
    policy = page.headers["content-security-policy"]
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert open_site.get("/docs/a.js").headers["content-type"].startswith("text/javascript")
    assert "swagger" in open_site.get("/docs").text.lower()
    for name in ("nothing.html", "%2e%2e/secret.txt", "..%2fsecret.txt", "tutorials"):
        assert_problem(open_site.get(f"/docs/{name}"), 404, "not-found")


def test_a_service_without_a_copy_says_so(client: Client, assert_problem: AssertProblem) -> None:
    assert "STABLE_ARENA_PAGES__DOCS_DIR" in assert_problem(client.get("/docs/"), 404, "not-found")["detail"]


def test_links_lead_to_where_the_pages_are_in_the_site(tmp_path: Path) -> None:
    BUILD["stage_pages"](tmp_path)
    home = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "](tutorials/connect-your-arena.md)" in home
    assert "](docs/" not in home
    assert "](monitoring/alerts.yml)" in (tmp_path / "operations.md").read_text(encoding="utf-8")
    assert (tmp_path / "monitoring" / "alerts.yml").is_file()
    assert (tmp_path / "images" / "leaderboard-light.webp").is_file()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ('<a href="c.html">', "index.html has a link to c.html, which does not exist"),
        ('<img src="https://other.example/a.png">', "index.html loads https://other.example/a.png"),
        ('<link rel=stylesheet href="//other.example/a.css">', "index.html loads //other.example/a.css"),
    ],
)
def test_broken_links_and_other_hosts_are_found(site: Path, page: str, words: str) -> None:
    assert BUILD["check_site"](site) == 2
    (site / "index.html").write_text(page)
    with pytest.raises(BUILD["SiteError"], match=words.replace(".", r"\.")):
        BUILD["check_site"](site)
