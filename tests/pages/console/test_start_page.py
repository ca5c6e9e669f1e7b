"""The first page of a console without votes, and the links between the console's pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from httpx import Client

from app.main import create_app
from app.pages.console.rendering import GROUPS
from app.settings import Settings
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page, text_of

Ask = Callable[..., Any]
DOCS = Path(__file__).parents[3] / "docs"


def test_an_admin_without_votes_begins_at_the_start(sign_in: SignIn, ask: Ask) -> None:
    admin = sign_in("admin")
    assert admin.get("/console").headers["location"] == "/console/start"
    page = admin.page("/console/start")
    assert {"/console/imports", "/console/answers"} <= set(page.links)
    answer = admin.submit(page, "/console/keys")
    assert answer.status_code == 200
    secret = Page(answer).text(".//code[@class='secret']")
    (made,) = [one for one in ask("GET", "/keys").json()["items"] if one["name"] == "frontend"]
    assert made["scopes"] == ["ingest"]
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
    sent = admin.client.post("/api/v1/votes", json=vote, headers={"Authorization": f"Bearer {secret}"})
    assert sent.status_code == 201
    assert admin.get("/console").headers["location"] == "/console/reviews", "there is a vote now"
    assert sign_in("review:read").get("/console/start").status_code == 403


def test_a_reviewer_begins_at_the_queue(sign_in: SignIn) -> None:
    assert sign_in("review").get("/console").headers["location"] == "/console/reviews"


def test_pages_stand_in_four_groups(sign_in: SignIn) -> None:
    assert len(GROUPS) == 4
    for visitor, hidden in ((sign_in("admin"), False), (sign_in("review:read"), True)):
        for name, pages in GROUPS.items():
            for section in pages:
                if hidden and section.scope != "review:read":
                    continue
                page = visitor.page(section.address)
                groups, own = page.all(".//nav[@aria-label='Console']/ul")
                assert [text_of(one) for one in groups.findall(".//a[@aria-current='true']")] == [name]
                assert [text_of(one) for one in own.findall(".//a[@aria-current='page']")] == [section.name]
                assert not [link for link in page.links if link.startswith("/docs/")], "this service has no guides"


def test_each_page_leads_to_its_guide(
    settings: Settings, serving: Callable[..., Any], keys: dict[str, str], tmp_path: Path
) -> None:
    for section in (one for pages in GROUPS.values() for one in pages):
        assert (DOCS / section.guide).with_suffix(".md").is_file(), section
    with_guides = create_app(
        settings.model_copy(update={"pages": settings.pages.model_copy(update={"docs_dir": tmp_path})})
    )
    with serving(with_guides) as url, Client(base_url=url, timeout=120) as client:
        visitor = Visitor(client)
        visitor.submit(visitor.page("/console/sign-in"), "/console/sign-in", key=keys["admin"])
        assert "/docs/vote-files.html" in visitor.page("/console/imports").links


def test_an_unknown_model_is_likely_one_of_these(sign_in: SignIn, ask: Ask, client: Client) -> None:
    for name in ("GPT 4", "meta/Llama-3", "Claude"):
        assert ask("POST", "/models", json={"name": name}).status_code == 201
    assert ask("POST", "/models", json={"name": "GPT-4o", "unreleased": True}).status_code == 201
    answer = client.get("/models/gpt-4")
    assert answer.status_code == 404
    page = Page(answer)
    assert page.texts(".//section//li") == ["GPT 4"]
    assert "/models/GPT%204" in page.links
    assert "GPT-4o" not in answer.text
    assert "meta/Llama-3" in Page(client.get("/models/Llama-3")).texts(".//section//li")
    assert "Did you mean" not in client.get("/models/zzzzzzzz").text
