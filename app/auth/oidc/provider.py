"""Signing in through an OpenID Connect provider: the authorization code flow with PKCE, by Authlib (extra `oidc`)."""

import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from app.errors import BadInputError, FieldError, NotAuthenticatedError, ScopeMissingError, UnavailableError
from app.settings import Settings
from app.state import ProcessState

_SCOPE = "openid email profile"
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]  # never one that needs a shared secret
_SECONDS = 10.0
_LEEWAY = 60  # seconds by which the provider's clock may differ
_RANDOM_BYTES = 32
_MOST_NAME = 200


class ProviderUnreachableError(UnavailableError):
    """The OpenID Connect provider did not answer, or not as the standard says."""

    code = "provider-unreachable"
    title = "The sign-in provider does not answer"


@dataclass(frozen=True)
class Attempt:
    """One attempt to sign in, as the browser keeps it until the provider sends it back.

    Attributes
    ----------
    state : names the attempt; the provider returns it
    nonce : stands in the ID token, which so belongs to this attempt
    verifier : proves to the provider that who redeems the code began the attempt (PKCE)
    """

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Attempt":
        """Return a new attempt."""
        return cls(*(secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3)))

    @classmethod
    def from_dict(cls, kept: Mapping[str, str]) -> "Attempt":
        """Return the attempt that the browser kept.

        Raises NotAuthenticatedError: the browser kept none.
        """
        try:
            return cls(**kept)
        except TypeError:
            raise NotAuthenticatedError("this browser began no sign-in, or too long ago: begin again") from None


@dataclass(frozen=True)
class Person:
    """Who signed in, by the provider's word, and what they may do."""

    name: str
    scopes: frozenset[str]


def _oauth_client() -> Any:
    """Return Authlib's client. Raises BadInputError."""
    try:
        import authlib.deprecate  # noqa: F401, PLC0415  its import sets filters of its own

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Authlib announces that it will move to another HTTP library
            from authlib.integrations.httpx_client import OAuth2Client  # noqa: PLC0415  an extra
    except ImportError:
        error = FieldError("STABLE_ARENA_OIDC__ISSUER", "needs the extra: pip install 'stable-arena[oidc]'")
        raise BadInputError("the settings are not valid", (error,)) from None
    return OAuth2Client


@dataclass(frozen=True)
class OpenIdProvider:
    """A provider whose users may sign in to the console.

    `issuer`: its address, below which `.well-known/openid-configuration` describes it.
    `name_claim`: the claim that names the person, for the audit log.
    `scopes_claim`: the claim with the person's groups or roles, a text or a list.
    `grants`: group or role → scope.
    Raises BadInputError: the extra `oidc` is not installed.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name_claim: str
    scopes_claim: str
    grants: Mapping[str, str]
    _new_client: Any = field(default_factory=_oauth_client, init=False, repr=False)

    def address(self, attempt: Attempt, redirect_uri: str) -> str:
        """Return where the browser is sent to sign in. Raises ProviderUnreachableError."""
        with self._client(redirect_uri) as client:
            url, _ = client.create_authorization_url(
                self._describe(client)["authorization_endpoint"],
                state=attempt.state,
                code_verifier=attempt.verifier,
                nonce=attempt.nonce,
            )
        return str(url)

    def finish(self, attempt: Attempt, redirect_uri: str, answer: Mapping[str, str]) -> Person:
        """Redeem the provider's answer, which the browser brought back, and return who signed in.

        Raises NotAuthenticatedError: the answer is not one to this attempt, or the provider refused.
        Raises ScopeMissingError: no group or role of the person has a scope here.
        Raises ProviderUnreachableError.
        """
        if not secrets.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise NotAuthenticatedError("this answer does not belong to a sign-in that this browser began")
        if "code" not in answer:
            raise NotAuthenticatedError(f"the provider refused: {answer.get('error', 'no reason')[:_MOST_NAME]}")
        with self._client(redirect_uri) as client:
            described = self._describe(client)
            id_token = self._redeem(client, described["token_endpoint"], answer["code"], attempt.verifier)
            keys = _get(client, described["jwks_uri"])
        return self._person(self._claims(id_token, keys, attempt.nonce))

    def _client(self, redirect_uri: str) -> Any:
        return self._new_client(
            self.client_id,
            self.client_secret,
            scope=_SCOPE,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=_SECONDS,
        )

    def _describe(self, client: Any) -> dict[str, Any]:
        found = _get(client, f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        missing = {"authorization_endpoint", "token_endpoint", "jwks_uri"} - found.keys()
        if missing or found.get("issuer") != self.issuer:
            raise ProviderUnreachableError("the provider describes itself as another issuer, or not completely")
        return found

    def _redeem(self, client: Any, endpoint: str, code: str, verifier: str) -> str:
        from authlib.common.errors import AuthlibBaseError  # noqa: PLC0415  an extra

        try:
            token = client.fetch_token(endpoint, code=code, code_verifier=verifier, grant_type="authorization_code")
        except AuthlibBaseError as error:
            raise NotAuthenticatedError(f"the provider refused the code: {error.error}") from None
        except (httpx.HTTPError, ValueError):
            raise ProviderUnreachableError("the provider did not redeem the code") from None
        return str(token.get("id_token", ""))

    def _claims(self, id_token: str, keys: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token, if the provider signed it for us, now, and for this attempt."""
        from joserfc import jwt  # noqa: PLC0415  an extra
        from joserfc.errors import JoseError  # noqa: PLC0415  of the same extra
        from joserfc.jwk import KeySet  # noqa: PLC0415  of the same extra

        rules = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.client_id},
            exp={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = jwt.decode(id_token, KeySet.import_key_set(keys), algorithms=_ALGORITHMS).claims  # type: ignore[arg-type]  # whatever the provider sent
            rules.validate(claims)
        except (JoseError, ValueError, KeyError, TypeError):
            raise NotAuthenticatedError("the provider's token is not valid here") from None
        return dict(claims)

    def _person(self, claims: Mapping[str, Any]) -> Person:
        name = claims.get(self.name_claim)
        if not isinstance(name, str) or not name.strip():
            raise NotAuthenticatedError(f"the provider's token has no {self.name_claim}")
        verified = str(claims.get("email_verified", True)).lower() == "true"  # some providers send it as a text
        if self.name_claim == "email" and not verified:
            raise NotAuthenticatedError("the provider has not verified the email address")
        groups = claims.get(self.scopes_claim, [])
        held = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        scopes = frozenset(self.grants[one] for one in held if isinstance(one, str) and one in self.grants)
        shown = f"{name.strip()[:_MOST_NAME]} via {urlsplit(self.issuer).hostname}"
        if not scopes:
            raise ScopeMissingError(f"{shown} has no group that may use the console")
        return Person("".join(c for c in shown if c.isprintable()), scopes)


def _get(client: Any, address: str) -> dict[str, Any]:
    try:
        answer = client.request("GET", address, withhold_token=True)
        answer.raise_for_status()
        found = answer.json()
    except (httpx.HTTPError, ValueError):
        raise ProviderUnreachableError("the provider did not answer") from None
    if not isinstance(found, dict):
        raise ProviderUnreachableError("the provider answered with something else than an object")
    return found


def provide_provider(state: ProcessState) -> None:
    """Hold the provider, if the settings name one."""
    chosen = state[Settings].oidc
    if chosen.issuer is None or chosen.client_id is None or chosen.client_secret is None:
        return
    state[OpenIdProvider] = OpenIdProvider(
        chosen.issuer,
        chosen.client_id,
        chosen.client_secret.get_secret_value(),
        name_claim=chosen.name_claim,
        scopes_claim=chosen.scopes_claim,
        grants=chosen.grants,
    )
