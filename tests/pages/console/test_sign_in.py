"""Signing in, being signed in, and signing out, as a browser does it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client
from sqlalchemy import text

from app.api.sessions import CSRF_HEADER
from app.auth.keys import revoke_key
from app.auth.sessions.csrf import make_token
from app.auth.sessions.service import make_link
from app.database.engine import Database
from app.main import create_app
from app.settings import Settings
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page

BROWSER = {"Accept": "text/html"}


def test_signing_in_leads_to_the_page_that_was_asked_for(stranger: Callable[[], Visitor], keys: dict[str, str]) -> None:
    visitor = stranger()
    asked = visitor.get("/console/sessions?a=b")
    assert (asked.status_code, asked.headers["location"]) == (303, "/console/sign-in?after=/console/sessions%3Fa%3Db")
    form = visitor.page(asked.headers["location"])
    answer = visitor.submit(form, "/console/sign-in", key=f" {keys['review']}\n")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sessions?a=b")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=lax", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "Secure" not in cookie, "a loopback address without TLS"
    page = visitor.page("/console/sessions")
    assert page.text(".//div[@class='visitor small']/span") == "Signed in as review key"
    assert keys["review"] not in answer.text + cookie
    assert visitor.get("/console/sign-in").headers["location"] == "/console/reviews", "signed in already"


def test_keys_that_get_nobody_in(stranger: Callable[[], Visitor], keys: dict[str, str], database: Database) -> None:
    for key, status, words in (
        ("", 422, "paste an API key"),
        (keys["admin"][:-1], 401, "this is not an API key"),
        (keys["admin"][:-1] + "é", 401, "this is not an API key"),
        (keys["ingest"], 403, "may only send votes"),
    ):
        visitor = stranger()
        answer = visitor.submit(visitor.page("/console/sign-in"), "/console/sign-in", key=key)
        assert answer.status_code == status
        assert words in Page(answer).text(".//div[@role='alert'][@id='why']")
        assert "set-cookie" not in answer.headers
    with database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM sessions")).scalar_one() == 0


@pytest.mark.parametrize(
    "after", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/a\nb", "/é"]
)
def test_signing_in_leads_to_no_other_host(
    sign_in: SignIn, stranger: Callable[[], Visitor], keys: dict[str, str], after: str
) -> None:
    form = {"key": keys["review"], "after": after}
    assert stranger().post("/console/sign-in", form).headers["location"] == "/console/reviews"


def test_a_session_ends_when_its_visitor_signs_out(sign_in: SignIn) -> None:
    visitor, other = sign_in("review"), sign_in("review")
    stolen = dict(visitor.client.cookies)
    answer = visitor.submit(visitor.page("/console/sessions"), "/console/sign-out")
    assert not visitor.client.cookies
    assert "You are signed out" in visitor.page(answer.headers["location"]).text(".//main")
    visitor.client.cookies.update(stolen)
    assert visitor.get("/console/sessions").status_code == 303
    assert other.get("/console/sessions").status_code == 200


def test_a_session_dies_with_its_key(sign_in: SignIn, keys: dict[str, str], database: Database) -> None:
    visitor = sign_in("admin")
    page = visitor.page("/console/sessions")
    with database.begin() as conn:
        revoke_key(conn, keys["admin"].split("_")[1])
    assert visitor.get("/console/sessions").headers["location"] == "/console/sign-in?after=/console/sessions"
    answer = visitor.submit(page, "/console/sign-out")
    assert answer.status_code == 401, "a form is not redirected: its content would be lost without a word"
    assert Page(answer).text(".//h1") == "Sign in first"


def test_sessions_are_listed_and_ended(sign_in: SignIn) -> None:
    mine, other, admin = sign_in("review"), sign_in("review"), sign_in("admin")
    assert len(mine.page("/console/sessions").all(".//tbody/tr")) == 2
    page = admin.page("/console/sessions")
    assert len(page.all(".//tbody/tr")) == 3
    ends = [form.get("action", "") for form in page.all(".//tbody//form")]
    assert len(ends) == 2, "one's own is ended by signing out"
    for action in ends:
        assert admin.submit(page, action).status_code == 303
    assert "has ended" in admin.page("/console/sessions").text(".//div[@role='status']")
    assert not admin.page("/console/sessions").all(".//div[@role='status']"), "a notice is shown once"
    assert [one.get("/console/sessions").status_code for one in (mine, other, admin)] == [303, 303, 200]
    assert mine.post(ends[0], {}).status_code in (401, 403)


def test_a_link_signs_in_once(stranger: Callable[[], Visitor], keys: dict[str, str], database: Database) -> None:
    with database.begin() as conn:
        ticket = make_link(conn, keys["review"].split("_")[1], lifetime=timedelta(minutes=5), actor="a test")
    address, first, second = f"/console/sign-in?ticket={ticket}", stranger(), stranger()
    forms = [visitor.page(address) for visitor in (first, first, second)]
    assert "as review key" in forms[0].text(".//main")
    assert first.submit(forms[0], "/console/sign-in").headers["location"] == "/console/reviews"
    assert first.get("/console/sessions").status_code == 200
    late = second.submit(forms[2], "/console/sign-in")
    assert late.status_code == 401
    assert "used already" in Page(late).text(".//div[@id='why']")
    dead = second.get(address)
    assert dead.status_code == 401
    assert Page(dead).one(".//input[@id='key']") is not None


def test_a_form_of_another_session_or_site_is_refused(sign_in: SignIn) -> None:
    visitor, other = sign_in("review"), sign_in("review")
    token = other.page("/console/sessions").all(".//input[@name='csrf_token']")[0].get("value") or ""
    own = visitor.page("/console/sessions").all(".//input[@name='csrf_token']")[0].get("value") or ""
    for fields, headers in (
        ({}, {}),
        ({"csrf_token": token}, {}),
        ({"csrf_token": own}, {"Origin": "https://evil.example"}),
        ({"csrf_token": own}, {"Origin": "null"}),
        ({"csrf_token": own}, {"Sec-Fetch-Site": "same-site"}),
    ):
        answer = visitor.post("/console/sign-out", fields, **headers)
        assert answer.status_code == 403, (fields, headers)
        assert Page(answer).text(".//h1") == "The request did not come from this page"
    silent = visitor.client.post("/console/sign-out", data={"csrf_token": own})
    assert silent.status_code == 403, "no browser leaves both headers out"
    assert visitor.post("/console/sign-out", {"csrf_token": own}).status_code == 303


def test_a_file_is_not_read_from_a_visitor_who_may_not_send_it(sign_in: SignIn) -> None:
    answer = sign_in("review").post("/console/imports", {})
    assert answer.status_code == 403
    assert "the scope ingest" in Page(answer).text(".//main"), "not that the form has no token: it was not read"


@pytest.mark.usefixtures("limits_clock")
def test_attempts_are_limited(stranger: Callable[[], Visitor]) -> None:
    visitor = stranger()
    answers = [visitor.post("/console/sign-in", {"key": "sa_guess"}) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert Page(answers[-1]).text(".//h1") == "Too many requests"
    assert visitor.get("/console/sign-in").status_code == 200


@pytest.mark.usefixtures("limits_clock")
def test_a_request_counts_towards_the_key_s_limit(
    settings: Settings, serving: Any, keys: dict[str, str], database: Database
) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE api_keys SET requests_per_minute = 2 WHERE name = 'review key'"))
    with serving(create_app(settings)) as url, Client(base_url=url, timeout=120) as client:
        visitor = Visitor(client)
        visitor.post("/console/sign-in", {"key": keys["review"]})
        assert [visitor.get("/console/sessions").status_code for _ in range(3)] == [200, 200, 429]


def behind_tls(app: FastAPI) -> Any:
    """The service as a proxy that ends TLS makes it look."""

    async def proxied(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "scheme": "https"}, receive, send)

    proxied.state, proxied.router = app.state, app.router  # type: ignore[attr-defined]
    return proxied


def test_with_tls_the_cookie_belongs_to_the_host_alone(settings: Settings, serving: Any, keys: dict[str, str]) -> None:
    app = create_app(settings)
    with serving(behind_tls(app), app.router.lifespan_context(app)) as url, Client(base_url=url, timeout=120) as client:
        host = {"Host": "arena.example"}
        answer = client.post(
            "/console/sign-in", data={"key": keys["review"]}, headers={**host, "Origin": "https://arena.example"}
        )
        name, secret = answer.headers["set-cookie"].split(";")[0].split("=", 1)
        assert name == "__Host-stable-arena"
        assert {"Secure", "HttpOnly", "Path=/"} <= set(answer.headers["set-cookie"].split("; "))
        assert "Domain" not in answer.headers["set-cookie"]
        assert client.get("/console/sessions", headers={**host, "Cookie": f"{name}={secret}"}).status_code == 200
        session = {**host, "Cookie": f"{name}={secret}", "Origin": "https://arena.example"}
        client.post("/console/sign-in", data={"key": keys["review"]}, headers=session)  # a second one, to be ended
        action = Page(client.get("/console/sessions", headers=session)).one(".//tbody//form").get("action") or ""
        ended = client.post(action, headers={**session, CSRF_HEADER: make_token(secret)})
        assert "Secure" in ended.headers["set-cookie"].split("; "), "of the notice that says what was done"
        wrong = client.post("/console/sign-in", data={}, headers={**host, "Origin": "http://arena.example"})
        assert wrong.status_code == 403


@pytest.mark.parametrize(
    "host", ["arena.example", "10.0.0.1:8000", "[::", "a b", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_without_tls_no_key_is_asked_for_across_the_network(client: Client, keys: dict[str, str], host: str) -> None:
    headers = {**BROWSER, "Host": host, "Origin": f"http://{host}"}
    for answer in (
        client.get("/console/sign-in", headers=headers),
        client.post("/console/sign-in", data={"key": keys["review"]}, headers=headers),
    ):
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert Page(answer).text(".//h1") == "Signing in needs HTTPS"
    for good in ("localhost:8000", "127.0.0.1", "[::1]:80"):
        assert client.get("/console/sign-in", headers={"Host": good}).status_code == 200
