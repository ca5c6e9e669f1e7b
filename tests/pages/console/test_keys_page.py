"""Keys, webhooks and the audit log in the console."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect
from sqlalchemy import text

from app.database.engine import Database
from app.settings import Settings, WebhookSettings
from tests.fixtures.browser import assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn
from tests.fixtures.pages import Page, text_of

Ask = Callable[..., Any]


def test_a_key_is_made_replaced_and_revoked(sign_in: SignIn, ask: Ask) -> None:
    admin = sign_in("admin")
    page = admin.page("/console/keys")
    answer = admin.submit(page, "/console/keys", name="arena backend", scopes="ingest", lifetime="month")
    assert "no-store" in answer.headers["cache-control"]
    secret = Page(answer).text(".//code[@class='secret']")
    made = next(key for key in ask("GET", "/keys").json()["items"] if key["name"] == "arena backend")
    assert (secret.startswith(f"sa_{made['prefix']}"), made["scopes"]) == (True, ["ingest"])
    assert secret not in admin.get("/console/keys").text

    replaced = Page(admin.submit(admin.page("/console/keys"), f"/console/keys/{made['id']}/rotate", overlap="day"))
    assert replaced.text(".//code[@class='secret']") != secret
    answer = admin.submit(admin.page("/console/keys"), f"/console/keys/{made['id']}/revoke")
    assert answer.status_code == 303
    states = {key["name"]: key["revoked_at"] for key in ask("GET", "/keys").json()["items"] if key["id"] == made["id"]}
    assert states["arena backend"] is not None


def test_a_key_that_is_not_valid_is_not_made(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    answer = admin.submit(admin.page("/console/keys"), "/console/keys", name="  ", requests_per_minute="")
    assert answer.status_code == 422
    page = Page(answer)
    assert (
        page.texts(".//div[@id='key-problem']//li")[1]
        == "scopes must be one or more of ingest, read, review:read, review, admin"
    )
    for limit in ("-1", "2147483648", "9" * 20):
        answer = admin.submit(page, "/console/keys", name="x", scopes="read", requests_per_minute=limit)
        assert answer.status_code == 422, answer.text
        wrong = Page(answer).texts(".//div[@id='key-problem']//li")
        assert wrong == ["requests per minute must be from 1 to 1,000,000,000"]


class TestWebhooks:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"webhooks": WebhookSettings(allow_private_addresses=True)})

    def test_a_webhook_is_made_tested_paused_and_deleted(self, sign_in: SignIn) -> None:
        admin = sign_in("admin")
        page = admin.page("/console/webhooks")
        assert page.text(".//div[@class='empty spaced']/p[@class='lead']") == "No service gets messages yet."
        refused = Page(admin.submit(page, "/console/webhooks", url="ftp://127.0.0.1/", events="refit.failed"))
        assert "The webhook was not made" in refused.text(".//div[@class='notice bad']/p")
        made = Page(admin.submit(page, "/console/webhooks", url="http://127.0.0.1:1/hook", events="refit.failed"))
        assert made.text(".//code[@class='secret']").startswith("whsec_")
        address = next(link for link in made.links if link.startswith("/console/webhooks/"))
        hook = admin.page(address)
        admin.submit(hook, f"{address}/test")
        assert admin.page(address).texts(".//tbody/tr/th") == ["test"]
        admin.submit(hook, f"{address}/pause")
        paused = admin.page(address)
        assert paused.one(".//div[@class='notice warn flash']/form").get("action") == f"{address}/resume"
        admin.submit(paused, f"{address}/resume")
        admin.submit(admin.page(address), f"{address}/delete")
        assert admin.get(address).status_code == 404


def test_the_log_is_searched_and_verified(sign_in: SignIn, ask: Ask, crowd: list[str], change_policy: Ask) -> None:
    change_policy(min_votes=20)
    ask("POST", f"/annotators/{crowd[0]}/decisions", json={"action": "trust", "reason": "a colleague"})
    reviewer = sign_in("review")
    assert reviewer.page("/console/audit?action=policy").texts(".//tbody/tr/th") == ["policy.set"]
    decision = reviewer.page("/console/audit?actor=admin%20key&action=decision")
    assert any("reason a colleague" in fact for fact in decision.texts(".//span[@class='fact']"))
    found = ask("GET", f"/annotators/{crowd[0]}").json()
    (subject,) = decision.all(".//td[@title]")
    assert (text_of(subject), subject.get("title")) == (crowd[0], found["id"]), "the key; the id is its title"
    assert f"/console/annotators/{found['id']}" in decision.links
    assert reviewer.page("/console/audit?subject=nothing").texts(".//tbody/tr") == []
    assert reviewer.page("/console/audit/verify").text(".//h1") == "The audit log is as written"


def test_older_entries_follow_by_the_page(sign_in: SignIn, database: Database) -> None:
    with database.begin() as conn:
        conn.execute(
            text(
                "INSERT INTO audit_log SELECT n, now(), 'a test', 'key.create', n::text, '{}', '', ''"
                " FROM generate_series(1, 60) AS n"
            )
        )
    reviewer = sign_in("review")
    first = reviewer.page("/console/audit?action=key")
    older = next(link for link in first.links if "before=" in link)
    numbers = first.texts(".//tbody/tr/td[1]") + reviewer.page(older).texts(".//tbody/tr/td[1]")
    assert numbers == [str(n) for n in range(60, 0, -1)]
    verified = reviewer.page("/console/audit/verify")
    assert verified.text(".//h1") == "The audit log was changed"


@pytest.mark.browser
@pytest.mark.arena
def test_keys_webhooks_and_the_log_in_a_browser(page: BrowserPage, console: Callable[[BrowserPage], None]) -> None:
    console(page)
    for address in ("/console/keys", "/console/webhooks", "/console/audit", "/console/audit/verify"):
        page.goto(address)
        assert_accessible(page)
        assert_fits_phone(page)
    page.goto("/console/keys")
    page.get_by_label("Name of its owner").fill("backend")
    page.get_by_label("ingest").check()
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_text("Copy it now")).to_be_visible()
    row = page.get_by_role("row", name="backend")
    expect(row.get_by_role("button", name="Revoke the key of backend")).to_be_hidden()
    row.get_by_text("Revoke…").click()
    assert_accessible(page)
    row.get_by_role("button", name="Revoke the key of backend").click()
    expect(page.get_by_role("status")).to_contain_text("is revoked")
    expect(page.get_by_role("row", name="backend")).to_contain_text("revoked")
