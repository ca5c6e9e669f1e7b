"""Signing in through an OpenID Connect provider, a small one that these tests run on loopback."""

import base64
import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from httpx import Client, Response
from joserfc import jwt
from joserfc.jwk import RSAKey
from pydantic import SecretStr

from app.auth.oidc import provider as oidc
from app.errors import BadInputError
from app.settings import OidcSettings, Settings
from tests.fixtures.application import Assemble
from tests.fixtures.console import Visitor
from tests.fixtures.pages import Page

CLIENT, SECRET = "stable-arena", "hush hush"
GRANTS = {"reviewers": "review", "owners": "admin"}


class Provider:
    """A provider with one user, who agrees at once; `claims` are those of the ID token."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.begin()

    def begin(self) -> None:
        """Forget what an earlier test changed."""
        self.signing = self.key
        self.claims: dict[str, Any] = {"email": "ann@example.org", "groups": ["reviewers", "others"]}
        self.fields: dict[str, Any] = {}
        self.asked: dict[str, str] = {}
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path)
                if path.path == "/.well-known/openid-configuration":
                    self._json(outer.description())
                elif path.path == "/keys":
                    self._json({"keys": [outer.key.as_dict(private=False)]})
                else:
                    self._json({"error": "not found"}, 404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
                fits = (
                    self.headers["Authorization"] == f"Basic {basic}"
                    and form["code"] == "a code"
                    and form["redirect_uri"] == outer.asked["redirect_uri"]
                    and challenge.decode().rstrip("=") == outer.asked["code_challenge"]
                )
                if not fits:
                    self._json({"error": "invalid_grant"}, 400)
                    return
                self._json({"access_token": "x", "token_type": "Bearer", "id_token": outer.id_token()})

            def _json(self, body: object, status: int = 200) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def description(self) -> dict[str, str]:
        places = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        return {"issuer": self.issuer, **{name: self.issuer + path for name, path in places.items()}}

    def id_token(self) -> str:
        now = int(time.time())
        usual = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "17",
            "iat": now,
            "exp": now + 60,
            "nonce": self.asked["nonce"],
        }
        claims = {name: value for name, value in {**usual, **self.claims, **self.fields}.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signing)

    def agree(self, sent_to: str) -> str:
        """Do what the provider's own page does: remember what was asked for, and say where the browser goes next."""
        self.asked = {name: values[0] for name, values in parse_qs(urlsplit(sent_to).query).items()}
        return f"{self.asked['redirect_uri']}?{urlencode({'code': 'a code', 'state': self.asked['state']})}"


@pytest.fixture(scope="module")
def _serving_provider() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.server.serve_forever, args=(0.01,))
    thread.start()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()
    thread.join()


@pytest.fixture
def provider(_serving_provider: Provider) -> Provider:
    _serving_provider.begin()
    return _serving_provider


@pytest.fixture
def visitor(
    provider: Provider, settings: Settings, serving: Callable[..., Any], assemble: Assemble
) -> Iterator[Visitor]:
    """A browser at a service that has the provider."""
    chosen = OidcSettings(issuer=provider.issuer, client_id=CLIENT, client_secret=SecretStr(SECRET), grants=GRANTS)
    app = assemble(settings.model_copy(update={"oidc": chosen}))
    with serving(app) as url, Client(base_url=url, timeout=60) as client:
        yield Visitor(client)


def sign_in(visitor: Visitor, provider: Provider, change: Callable[[str], str] = lambda address: address) -> Response:
    button = next(link for link in visitor.page("/console/sign-in?after=/console/appeals").links if "provider" in link)
    sent = visitor.get(button)
    assert sent.status_code == 303
    return visitor.get(change(provider.agree(sent.headers["location"])))


def test_a_person_signs_in_with_the_scopes_of_the_groups(visitor: Visitor, provider: Provider) -> None:
    answer = sign_in(visitor, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/appeals"), answer.text
    assert provider.asked["scope"] == "openid email profile"
    page = visitor.page("/console/appeals")
    assert page.text(".//div[@class='visitor small']/span") == "Signed in as ann@example.org via 127.0.0.1"
    assert visitor.get("/console/keys").status_code == 403
    sessions = visitor.page("/console/sessions")
    assert len(sessions.all(".//tbody/tr")) == 1
    assert visitor.submit(sessions, "/console/sign-out").status_code == 303
    assert visitor.get("/console/appeals").status_code == 303
    provider.claims |= {"groups": "owners", "email_verified": "true"}
    sign_in(visitor, provider)
    assert visitor.get("/console/keys").status_code == 200
    entries = visitor.page("/console/audit").text(".//main")
    assert "session.start" in entries
    assert "ann@example.org via 127.0.0.1" in entries


@pytest.mark.parametrize(
    ("status", "words", "refused"),
    [
        (
            403,
            "has no group that may use the console",
            [{"groups": ["others"]}, {"groups": None}, {"groups": {"reviewers": True}}],
        ),
        (401, "has no email", [{"email": None}]),
        (401, "has not verified the email address", [{"email_verified": False}, {"email_verified": "false"}]),
        (401, "not valid here", [{"nonce": "of another attempt"}, {"aud": "another service"}]),
        (401, "not valid here", [{"iss": "https://elsewhere.example"}, {"exp": 1}, {"exp": None}]),
    ],
)
def test_a_token_that_is_refused(
    visitor: Visitor, provider: Provider, status: int, words: str, refused: list[dict[str, Any]]
) -> None:
    for claims in refused:  # fewer than the attempts of a minute
        provider.fields = claims
        answer = sign_in(visitor, provider)
        assert answer.status_code == status, claims
        assert words in Page(answer).text(".//div[@id='why']"), claims
        assert visitor.get("/console/sessions").status_code == 303, claims


def test_a_token_signed_by_another_key_is_refused(visitor: Visitor, provider: Provider) -> None:
    provider.signing = RSAKey.generate_key(2048, {"kid": "one"})
    assert "not valid here" in Page(sign_in(visitor, provider)).text(".//div[@id='why']")


def test_an_answer_that_this_browser_did_not_ask_for_is_refused(visitor: Visitor, provider: Provider) -> None:
    answer = sign_in(visitor, provider, lambda address: address.replace("state=", "state=x"))
    assert "does not belong to a sign-in that this browser began" in Page(answer).text(".//div[@id='why']")
    denied = sign_in(visitor, provider, lambda address: address.replace("code=a+code", "error=access_denied"))
    assert "access_denied" in Page(denied).text(".//div[@id='why']")
    replayed = sign_in(visitor, provider, lambda address: address.replace("a+code", "another"))
    assert "invalid_grant" in Page(replayed).text(".//div[@id='why']")
    visitor.client.cookies.clear()
    lone = visitor.get("/console/sign-in/provider/answer?code=a+code&state=x")
    assert "began no sign-in" in Page(lone).text(".//div[@id='why']")


def test_a_provider_that_does_not_answer_is_named(visitor: Visitor, provider: Provider) -> None:
    provider.issuer = "https://elsewhere.example"
    answer = visitor.get("/console/sign-in/provider", headers={"Accept": "text/html"})
    assert (answer.status_code, Page(answer).text(".//h1")) == (503, "The sign-in provider does not answer")


@pytest.mark.usefixtures("limits_clock")
def test_the_provider_is_not_asked_without_end(visitor: Visitor) -> None:
    answers = [visitor.get("/console/sign-in/provider") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [303] * 10 + [429]


def test_without_a_provider_there_is_no_way_to_one(client: Client) -> None:
    assert not [link for link in Page(client.get("/console/sign-in")).links if "provider" in link]
    assert client.get("/console/sign-in/provider").status_code == 404


def test_a_provider_needs_the_extra(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "authlib.integrations.httpx_client", None)
    with pytest.raises(BadInputError) as caught:
        oidc.OpenIdProvider("https://x", "a", "b", name_claim="email", scopes_claim="groups", grants=GRANTS)
    assert "stable-arena[oidc]" in caught.value.errors[0].detail
