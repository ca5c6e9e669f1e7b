"""The voting page and its doors, and the pages of the console for answers and invitations."""

import json
import re
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from sqlalchemy import text

from app.database.engine import Database
from app.guard.limits import VISITORS_PER_MINUTE
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page

Ask = Callable[..., Any]
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>[x](javascript:alert(1)) **bold** $x<y$"
POOL = [
    {
        "prompt": f"{number} {MARKUP}",
        "model": model,
        "answer": f"{number} {MARKUP}",
        "category": '"><script>',
        "reference": MARKUP,
    }
    for number in range(2)
    for model in ("ash", "birch")
]
UNSAFE = re.compile(r"<script>|<img src=x|<[^>]*(?:javascript:|onerror)", re.IGNORECASE)


@pytest.fixture
def pool(ask: Ask) -> None:
    assert ask("POST", "/answers", json={"answers": POOL}).status_code == 200


def token_of(page: Page) -> str | None:
    return page.one(".//stable-arena-battle").get("token")


@pytest.mark.usefixtures("pool")
def test_the_door_and_its_cookie(ask: Ask, stranger: Callable[[], Visitor], client: Client, database: Database) -> None:
    visitor = stranger()
    assert (token_of(visitor.page("/vote")), visitor.page("/vote").all(".//form")) == (None, [])
    assert visitor.post("/vote", {}).headers.get("set-cookie") is None, "the door is closed"
    door = ask("POST", "/invitations", json={"everyone": True, "max_votes": 1}).json()
    assert (door["link"], door["annotator"]) == ("/vote", None)
    assert not visitor.client.cookies, "it is asked for first"
    assert visitor.client.post("/vote", headers={"Origin": "https://evil.example"}).status_code == 403
    entered = visitor.submit(visitor.page("/vote"), "/vote")
    assert (entered.status_code, entered.headers["location"]) == (303, "/vote")
    assert {"HttpOnly", "SameSite=lax"} <= set(entered.headers["set-cookie"].split("; "))
    token = token_of(visitor.page("/vote"))
    assert token is not None
    shown = {"Authorization": f"Bearer {token}"}
    battle = client.post("/api/v1/battles", json={}, headers=shown).json()
    assert battle["votes_left"] == 1
    assert client.post("/api/v1/votes", json={"token": battle["token"], "winner": "left"}).status_code == 201
    assert client.post("/api/v1/battles", json={}, headers=shown).status_code == 410
    with database.read() as conn:
        (key,) = conn.execute(text("SELECT key FROM annotators")).scalars()
    assert re.fullmatch(r"visitor-[0-9a-f]{32}", key)
    assert ask("GET", "/invitations").json()["items"][0]["votes"] == 1
    newer = ask("POST", "/invitations", json={"everyone": True}).json()
    states = {one["id"]: one["state"] for one in ask("GET", "/invitations").json()["items"]}
    assert states == {door["id"]: "revoked", newer["id"]: "open"}
    visitor.submit(visitor.page("/vote"), "/vote/forget")
    assert token_of(visitor.page("/vote")) is None
    visitor.client.cookies.set(f"stable-arena-{visitor.client.base_url.port}-voter", "sav_forged")
    assert visitor.get("/vote").status_code == 200


@pytest.mark.usefixtures("limits_clock")
def test_many_visitors_of_one_address_are_slowed_down(
    ask: Ask, stranger: Callable[[], Visitor], database: Database
) -> None:
    ask("POST", "/invitations", json={"everyone": True})
    visitor = stranger()
    answers = [visitor.post("/vote", {}).status_code for _ in range(VISITORS_PER_MINUTE + 20)]
    assert answers == [303] * VISITORS_PER_MINUTE + [429] * 20
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM annotators")).scalar_one() == 0, "none has asked for a battle"


@pytest.mark.campaign
@pytest.mark.usefixtures("pool", "limits_clock")
def test_a_thousand_visitors_of_one_address(
    ask: Ask, stranger: Callable[[], Visitor], client: Client, database: Database
) -> None:
    """Those who are let in ask for a battle; of the others nothing is stored or remembered."""
    ask("POST", "/invitations", json={"everyone": True})
    visitor, memory = stranger(), resident_bytes()
    entered, drawn = Counter[int](), Counter[int]()
    for _ in range(1_000):
        visitor.client.cookies.clear()
        answer = visitor.post("/vote", {})
        entered[answer.status_code] += 1
        for token in answer.cookies.values():
            shown = {"Authorization": f"Bearer {token}"}
            drawn[client.post("/api/v1/battles", json={}, headers=shown).status_code] += 1
    assert entered == {303: VISITORS_PER_MINUTE, 429: 1_000 - VISITORS_PER_MINUTE}
    assert drawn.total() == entered[303]
    assert drawn.keys() <= {201, 429}
    with database.read() as conn:
        rows = [conn.execute(text(f"SELECT count(*) FROM {one}")).scalar_one() for one in ("annotators", "battles")]
    assert rows == [drawn[201]] * 2
    assert resident_bytes() - memory < 64 * 1024**2


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


@pytest.mark.usefixtures("pool")
def test_markup_in_every_field_is_harmless(ask: Ask, client: Client, sign_in: SignIn) -> None:
    admin = sign_in("admin")
    link = ask("POST", "/invitations", json={"annotator": "<script>x</script>", "category": '"><script>'}).json()
    shown = {"Authorization": f"Bearer {link['link'].partition('#')[2]}"}
    battle = client.post("/api/v1/battles", json={}, headers=shown).json()
    for field in ("prompt", "left_answer", "right_answer"):
        assert not UNSAFE.search(battle[field])
        assert "<strong>bold</strong>" in battle[field]
        assert "<mo>&lt;</mo>" in battle[field]
    prompt = ask("GET", "/prompts").json()["items"][0]["id"]
    for path in ("/console/answers", f"/console/answers/{prompt}", "/console/invitations"):
        page = admin.get(path)
        assert page.status_code == 200
        assert not UNSAFE.search(page.text), path


def test_the_console_opens_and_closes_voting(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/invitations")
    assert "There are no prompts yet" in page.text(".//main")
    made = admin.submit(page, "/console/invitations", door="link", annotator="ada", max_votes="5", lifetime="week")
    assert made.status_code == 200
    link = Page(made).one(".//div[@role='status']//code").text
    assert re.fullmatch(rf"{admin.origin}/vote#sav_[\w-]{{44}}", link or "")
    refused = admin.submit(page, "/console/invitations", max_votes="many", lifetime="day")
    assert (refused.status_code, "max votes" in refused.text) == (422, True)
    listed = admin.page("/console/invitations")
    (action,) = [form.get("action") for form in listed.all(".//form") if str(form.get("action")).endswith("/revoke")]
    assert admin.submit(listed, str(action)).status_code == 303
    assert admin.page("/console/invitations").texts(".//td/span") == ["revoked"]
    assert sign_in("review").get("/console/invitations").status_code == 403
    assert sign_in("review").get("/console/answers").status_code == 403


def test_the_console_records_a_file_or_tries_it_out(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/answers")
    token = page.one(".//form[@action='/console/answers']/input[@type='hidden']")
    fields = {str(token.get("name")): str(token.get("value"))}
    lines = "\n".join(json.dumps({"prompt": "Why?", "model": model, "answer": "*So.*"}) for model in ("ash", "birch"))

    def send(content: str, **more: str) -> Any:
        files = {"file": ("a.jsonl", content.encode())}
        return admin.client.post(
            "/console/answers", data={**fields, **more}, files=files, headers={"Origin": admin.origin}
        )

    tried = send(lines, **{"try": "1"})
    assert (tried.status_code, "Tried out" in tried.text, "Why?" in tried.text) == (200, True, True)
    assert "0 prompts" in admin.get("/console/answers").text
    assert "Recorded." in send(lines).text
    wrong = send('{"prompt": "x"}')
    assert (wrong.status_code, "no column for model and answer" in wrong.text, "stable-arena-" in wrong.text) == (
        422,
        True,
        False,
    )
    (link,) = admin.page("/console/answers").all(".//table//a")
    shown = admin.page(str(link.get("href")))
    assert [em.text for em in shown.all(".//section/p/em")] == ["So."] * 2
    action = f"{link.get('href')}/withdraw"
    assert admin.submit(shown, action).status_code == 303
    assert len(admin.page(str(link.get("href"))).all(".//section/p/em")) == 1
