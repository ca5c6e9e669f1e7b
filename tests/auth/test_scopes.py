"""Every route with every kind of caller: who gets in is what docs/reference.md says."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from httpx import Client
from sqlalchemy import text

from app.api.sessions import CSRF_HEADER
from app.auth.callers import SCOPES
from app.auth.keys import authenticate, create_key, revoke_key
from app.auth.sessions.csrf import make_token
from app.auth.sessions.schemas import Lifetimes
from app.auth.sessions.service import sign_in
from app.auth.tokens import create_token
from app.database.engine import Database
from app.main import create_app
from app.settings import Settings
from tests.fixtures.application import Assemble

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
PREFIX = "/api/v1"
WITHOUT_PREFIX = {"/healthz", "/readyz", "/metrics"}
UNDESCRIBED = {("GET", f"{PREFIX}/openapi.json")}  # public
WITHOUT_A_KEY = ("no key", "revoked", "expired", "made up")
LIFETIMES = Lifetimes(timedelta(hours=1), timedelta(hours=1))
CALLERS = (*WITHOUT_A_KEY, *SCOPES, "token")
VISITORS = ("no key", "revoked", "read", "review:read", "review", "admin")
"""Of pages: there is no session for keys and tokens that may only send votes."""

ENDING_SESSIONS = ("/console/sign", "/console/sessions")

REFUSALS = {401: "not-authenticated", 403: "scope-missing"}
"""The problem of an API's answer."""

INCLUDED = {"admin": {*SCOPES}, "review": {"review:read"}}

Verdict = str  # "in", or the status that keeps the caller out


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Return every (method, path) that the application answers, whether it is described or not."""
    found = []
    for route in iter_route_contexts(app.routes):
        methods = getattr(route, "methods", None)
        assert methods, f"{route} is no plain route: what rule is there for it?"
        path = re.sub(r":\w+}", "}", route.path)
        found += [(method, path) for method in methods - {"HEAD", "OPTIONS"}]
    return sorted(set(found) - UNDESCRIBED)


def documented_rules() -> dict[tuple[str, str], set[str]]:
    """Return the words of the scope column for each (method, path) of the first, of the endpoints and the pages."""
    rules = {}
    for heading, prefix in (("Endpoints", PREFIX), ("Pages", "")):
        section = REFERENCE.split(f"## {heading}\n")[1].split("\n## ")[0]
        for cell, scope in re.findall(r"^\| (`[^|]+`) \|.*?([^|]+) \|$", section, re.MULTILINE):
            for method, path in re.findall(r"`(\w+) (\S+)`", cell):
                full = path if path in WITHOUT_PREFIX else prefix + path
                assert (method, full) not in rules, f"{method} {full} has two rules"
                rules[method, full] = set(re.findall(r"[\w:]+", re.sub(r"\(.*?\)", "", scope)))
    for route, rule in rules.items():
        assert rule - {"or"} <= {*SCOPES, "token", "public", "none"}, f"{rule} is not a rule, at {route}"
    return rules


def expected(rule: set[str], caller: str) -> Verdict:
    if rule & {"none", "public"}:
        return "in"
    if caller in WITHOUT_A_KEY:
        return "401"
    return "in" if rule & {caller, *INCLUDED.get(caller, ())} else "403"


def expected_page(rule: set[str], caller: str) -> Verdict:
    if rule & {"none", "public"}:
        return "in"
    if caller in WITHOUT_A_KEY:
        return "401"
    return "in" if caller == "admin" or rule & {caller, *INCLUDED.get(caller, ())} else "403"


def is_page(path: str) -> bool:
    return not path.startswith(PREFIX) and path not in WITHOUT_PREFIX


@pytest.fixture
def headers(database: Database) -> dict[str, dict[str, str]]:
    """The header that each caller shows."""
    with database.begin() as conn:
        shown = {scope: create_key(conn, scope, [scope])[1] for scope in SCOPES}
        ingest = authenticate(conn, shown["ingest"])
        shown["token"] = create_token(conn, ingest, lifetime=timedelta(hours=1), annotator="me").token
        record, shown["revoked"] = create_key(conn, "revoked", ["admin"])
        revoke_key(conn, record.prefix)
        record, shown["expired"] = create_key(conn, "expired", ["admin"])
        conn.execute(text("UPDATE api_keys SET expires_at = now() WHERE id = :id"), {"id": record.id})
        shown["made up"] = create_key(conn, "made up", ["admin"])[1].replace("sa_", "sat_")
    return {"no key": {}, **{caller: {"Authorization": f"Bearer {secret}"} for caller, secret in shown.items()}}


@pytest.fixture
def cookies(database: Database, headers: dict[str, dict[str, str]]) -> Callable[..., dict[str, str]]:
    """What the browser of each caller shows: a session, if one can be opened with the key.

    All pages share it, but for those that end sessions: opening one is dearer than most pages.
    """
    opened: dict[str, str] = {}

    def show(caller: str, client: Client, path: str = "") -> dict[str, str]:
        if caller not in opened:
            opened[caller] = _open(caller)
        secret = opened.pop(caller) if path.startswith(ENDING_SESSIONS) else opened[caller]
        url = client.base_url
        cookie = {"Cookie": f"stable-arena-{url.port}={secret}"} if secret else {}
        return {**cookie, "Origin": str(url).rstrip("/"), CSRF_HEADER: make_token(secret)}

    def _open(caller: str) -> str:
        if caller == "no key":
            return ""
        with database.begin() as conn:
            key = create_key(conn, caller, ["admin"])[1] if caller == "revoked" else _key(caller)
            visitor = sign_in(conn, key, LIFETIMES, browser="")
            if caller == "revoked":
                revoke_key(conn, key.split("_")[1])
        return visitor.secret

    def _key(caller: str) -> str:
        return headers[caller]["Authorization"].removeprefix("Bearer ")

    return show


def verdict(client: Client, method: str, path: str, headers: dict[str, str]) -> Verdict:
    # From an address each: an address may make only so many requests without a key.
    elsewhere = {"X-Forwarded-For": f"2001:db8:{uuid4().hex[:4]}::1"}
    with client.stream(method, re.sub(r"{[\w:]+}", str(uuid4()), path), headers={**headers, **elsewhere}) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):  # which would not end
            answer.read()
    assert answer.status_code < 500 or answer.status_code == 503, (method, path, answer.text)
    if answer.status_code in (401, 403) and not is_page(path):
        assert answer.json()["type"] == f"/problems/{REFUSALS[answer.status_code]}", (method, path, answer.text)
        assert ("WWW-Authenticate" in answer.headers) == (answer.status_code == 401), (method, path)
    if answer.headers.get("location", "").startswith("/console/sign-in?after="):
        return "401"
    return str(answer.status_code) if answer.status_code in (401, 403) else "in"


def test_every_route_accepts_the_callers_of_the_reference(
    usual_app: FastAPI, client: Client, headers: dict[str, dict[str, str]]
) -> None:
    rules, wrong = documented_rules(), []
    for route in routes(usual_app):
        if is_page(route[1]):
            continue
        if route not in rules:
            wrong.append(f"{' '.join(route)}: no rule is declared")
            continue
        for caller in CALLERS:
            found = verdict(client, *route, headers[caller])
            if found != expected(rules[route], caller):
                wrong.append(f"{' '.join(route)}: {caller} is {found}, not {expected(rules[route], caller)}")
    assert not wrong, "\n".join(wrong)


def test_every_page_accepts_the_visitors_of_the_reference(
    usual_app: FastAPI, client: Client, cookies: Callable[..., dict[str, str]]
) -> None:
    rules, wrong = documented_rules(), []
    pages = [route for route in routes(usual_app) if is_page(route[1])]
    assert ("GET", "/console/sessions") in pages
    for route in pages:
        if route not in rules:
            wrong.append(f"{' '.join(route)}: no rule is declared")
            continue
        for caller in VISITORS:
            found = verdict(client, *route, cookies(caller, client, route[1]))
            if found != expected_page(rules[route], caller):
                wrong.append(f"{' '.join(route)}: {caller} is {found}, not {expected_page(rules[route], caller)}")
    assert not wrong, "\n".join(wrong)


def test_no_page_takes_a_form_without_its_token(
    usual_app: FastAPI, client: Client, cookies: Callable[..., dict[str, str]]
) -> None:
    pages = [route for route in routes(usual_app) if is_page(route[1]) and route[0] != "GET"]
    assert ("POST", "/console/sign-out") in pages
    for method, path in pages:
        shown, where = cookies("admin", client, path), re.sub(r"{[\w:]+}", str(uuid4()), path)
        forged = [{**shown, "Origin": "https://evil.example"}, {**shown, "Sec-Fetch-Site": "cross-site"}]
        if path not in ("/console/sign-in", "/vote", "/vote/forget"):  # these have no session for a token to belong to
            forged += [{**shown, CSRF_HEADER: make_token("another")}, {**shown, CSRF_HEADER: ""}]
        for headers in forged:
            answer = client.request(method, where, headers=headers)
            assert (answer.status_code, "did not come from this page" in answer.text) == (403, True), (path, headers)


def test_every_route_s_description_names_its_scopes(usual_app: FastAPI) -> None:
    paths = usual_app.openapi()["paths"]
    for (method, path), rule in documented_rules().items():
        if is_page(path):
            continue  # a page has no description
        operation = paths[path][method.lower()]
        named = {scope for requirement in operation.get("security", []) for scope in requirement.get("apiKey", [])}
        assert named >= rule & set(SCOPES) - ({"read"} if "public" in rule else set()), (method, path)


def test_a_route_without_a_rule_is_found() -> None:
    app = create_app(Settings())
    before = set(routes(app))
    app.router.routes.append(APIRoute(f"{PREFIX}/secrets", lambda: None, include_in_schema=False))
    assert set(routes(app)) - before == {("GET", f"{PREFIX}/secrets")}
    assert ("GET", f"{PREFIX}/secrets") not in documented_rules()


def test_a_closed_leaderboard_is_closed(
    settings: Settings,
    serving: Callable[[FastAPI], Any],
    assemble: Assemble,
    headers: dict[str, dict[str, str]],
    cookies: Callable[..., dict[str, str]],
) -> None:
    closed = assemble(settings.model_copy(update={"public_leaderboard": False}))
    public = [route for route, rule in documented_rules().items() if "public" in rule]
    with serving(closed) as url, Client(base_url=url, timeout=120) as client:
        for route in public:
            for caller, found in (("no key", "401"), ("revoked", "401"), ("ingest", "403"), ("read", "in")):
                if is_page(route[1]) and caller == "ingest":
                    continue  # it opens no session
                shown = cookies(caller, client) if is_page(route[1]) else headers[caller]
                assert verdict(client, *route, shown) == found, route
