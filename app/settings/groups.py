"""The groups of settings, such as `STABLE_ARENA_SERVER__PORT`: one class for each."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

_ORIGIN = re.compile(r"https?://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
_ISSUER = re.compile(r"https://[^\s?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[^\s?#]*)?")
_SCHEDULER = re.compile(r"(tcp|tls)://[^\s/:]+:[0-9]{1,5}|(tcp|tls)://\[[0-9a-f:]+\]:[0-9]{1,5}")


def _none(value: object) -> object:
    """Read the word none as no limit. A variable has no other way to say it where the default is a limit."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


NO_LIMIT = BeforeValidator(_none)


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _origins(value: tuple[str, ...]) -> tuple[str, ...]:
    for origin in value:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(f"{origin!a} is not an origin such as https://arena.example or http://localhost:3000")
    return value


class SettingsGroup(BaseModel):
    """Settings that belong together. An unknown one is refused, also inside a group that is given as JSON."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ServerSettings(SettingsGroup):
    """Where the HTTP server listens and what it accepts."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged; debug logs every request."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes of `serve` that answer requests.",
    )
    max_body_bytes: int = Field(
        16 * 1024 * 1024,
        ge=1024,
        description="Requests with a larger body are refused.",
    )
    bodies_bytes: int = Field(
        128 * 1024 * 1024,
        ge=1024 * 1024,
        description="Bytes of request bodies that may be in work.",
    )
    connections_per_address: Annotated[int | None, NO_LIMIT] = Field(
        200,
        ge=1,
        description="Connections that an address may have, and requests in progress without a key where a trusted "
        "proxy forwards it.",
    )
    requests_per_minute: Annotated[int | None, NO_LIMIT] = Field(
        None,
        ge=1,
        description="Limit of every API key without a limit of its own.",
    )
    anonymous_requests_per_minute: Annotated[int | None, NO_LIMIT] = Field(
        600,
        ge=1,
        description="Limit of every address without a valid key; 100 requests, or a sixth if that is more, may come at "
        "once.",
    )
    unread_bodies_per_minute: Annotated[int | None, NO_LIMIT] = Field(
        60,
        ge=1,
        description="Requests of an address that are refused with their bodies unread, or as reads past its limit; "
        "the answers to more of them come some five seconds late.",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins whose pages may call the service from a browser."
    )

    @field_validator("host")
    @classmethod
    def host_is_not_blank(cls, value: str) -> str:
        """Refuse an empty variable: a socket would listen on every address."""
        if not value.strip():
            raise ValueError("is set but empty; 0.0.0.0 listens on every address")
        return value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def split_origins(cls, value: object) -> object:
        """Split the variable's text at its commas."""
        return _split(value)

    @field_validator("cors_origins")
    @classmethod
    def origins_are_exact(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse wildcards and everything that no browser sends as an Origin."""
        return _origins(value)


class SessionSettings(SettingsGroup):
    """How long visitors of the console stay signed in."""

    idle_minutes: int = Field(
        60, ge=1, le=7 * 24 * 60, description="A session of the console ends after so long without a request."
    )
    longest_hours: int = Field(12, ge=1, le=30 * 24, description="A session ends after so long in any case.")


class PageSettings(SettingsGroup):
    """What other people's pages may do with ours, and what they are told of it."""

    embed_ancestors: Annotated[tuple[str, ...], NoDecode] = Field(
        ("*",),
        description="Origins whose pages may show /embed in a frame; * for all.",
    )
    public_url: str | None = Field(
        None,
        description="The service's own origin, for the picture in previews of links.",
    )
    docs_dir: Path | None = Field(
        None, description="Folder of the documentation that `make site` built, served at /docs/."
    )

    @field_validator("embed_ancestors", mode="before")
    @classmethod
    def split_ancestors(cls, value: object) -> object:
        """Split the variable's text at its commas."""
        return _split(value)

    @field_validator("embed_ancestors")
    @classmethod
    def ancestors_are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse everything that is neither an origin nor a lone `*`."""
        return value if value == ("*",) else _origins(value)

    @field_validator("public_url")
    @classmethod
    def public_url_is_an_origin(cls, value: str | None) -> str | None:
        """Refuse everything that is no origin."""
        return value and _origins((value,))[0]


class OidcSettings(SettingsGroup):
    """Signing in to the console through an OpenID Connect provider (extra `oidc`)."""

    issuer: str | None = Field(None, description="Address of an OpenID Connect provider.")
    client_id: str | None = Field(None, description="The service's name at the provider.")
    client_secret: SecretStr | None = Field(None, description="The service's secret at the provider.")
    name_claim: str = Field("email", description="Claim of the ID token that names a person in the audit log.")
    scopes_claim: str = Field("groups", description="Claim with the person's groups or roles.")
    grants: dict[str, Literal["read", "review:read", "review", "admin"]] = Field(
        {}, description='Which scope each group gives, as JSON: {"arena-reviewers": "review"}.'
    )

    @field_validator("issuer")
    @classmethod
    def issuer_is_an_address(cls, value: str | None) -> str | None:
        """Refuse what is no address, and plain http, except on this machine."""
        if value is not None and not _ISSUER.fullmatch(value):
            raise ValueError(f"{value!a} is not an address such as https://login.example")
        return value

    @model_validator(mode="after")
    def is_complete(self) -> Self:
        """Refuse an issuer without what signing in there needs."""
        needed = {"client_id": self.client_id, "client_secret": self.client_secret, "grants": self.grants}
        missing = [name for name, value in needed.items() if not value]
        if self.issuer is not None and missing:
            raise ValueError(f"an issuer needs {', '.join(missing)} too")
        return self


class DatabaseSettings(SettingsGroup):
    """The connections that a process holds, and how long it waits for one."""

    pool_size: int = Field(10, ge=1, le=200, description="Connections kept open per process.")
    connect_timeout_seconds: int = Field(5, ge=1, le=60, description="How long to wait for PostgreSQL to answer.")
    transaction_pooler: bool = Field(
        False, description="Whether the URL is of a pooler in transaction mode, such as pgbouncer."
    )


class IngestSettings(SettingsGroup):
    """Limits of the queue for single votes and of batches, and what happens to unknown models."""

    queue_size: int = Field(10_000, ge=1, description="Single votes that may wait.")
    batch_bytes: int = Field(64 * 1024 * 1024, ge=1024, description="Bytes of batches that may be in work.")
    unknown_models: Literal["create", "refuse"] = Field(
        "create",
        description="Whether a vote that names an unknown model adds the model or is refused. A vote by a token never "
        "adds one.",
    )
    votes_per_token: Annotated[int | None, NO_LIMIT] = Field(
        60, ge=1, description="Votes a minute that an ingest token may send."
    )
    token_votes_per_annotator: Annotated[int | None, NO_LIMIT] = Field(
        30,
        ge=1,
        description="Votes a minute that all ingest tokens of a key may send for one annotator.",
    )


class BattleSettings(SettingsGroup):
    """Sealed battles and their tokens."""

    token_seconds: int = Field(3600, ge=1, le=604_800, description="Time that a battle waits for its vote.")


class ImportSettings(SettingsGroup):
    """Limits of uploaded files of votes."""

    max_bytes: int = Field(1024**3, ge=1024, description="Larger uploads are refused.")
    memory_bytes: Annotated[int | None, NO_LIMIT] = Field(
        2 * 1024**3,
        ge=1024**3,
        description="An upload that needs more memory to be read fails (at least 1 GiB).",
    )


class ExportSettings(SettingsGroup):
    """How long finished exports stay."""

    keep_days: int = Field(7, ge=1, le=3650, description="Days that the files of finished exports can be downloaded.")


class WorkerSettings(SettingsGroup):
    """The worker that runs refits, imports and exports."""

    run_in_server: bool = Field(
        True,
        description="Whether `serve` starts a worker process for refits, imports and exports.",
    )
    lease_seconds: float = Field(
        30.0, ge=1, le=3600, description="Time that a silent worker keeps the right to publish."
    )
    fit_seconds: Annotated[float | None, NO_LIMIT] = Field(
        3600.0, gt=0, description="A fit that takes longer is stopped."
    )
    fit_memory_bytes: Annotated[int | None, NO_LIMIT] = Field(
        None,
        ge=1024**3,
        description="A fit that needs more memory is stopped (at least 1 GiB).",
    )


class FitSettings(SettingsGroup):
    """Where fits are computed."""

    scheduler: str | None = Field(
        None,
        description="Address of a Dask scheduler (tcp://… or tls://…) whose workers hold the votes of large fits.",
    )

    @field_validator("scheduler")
    @classmethod
    def scheduler_is_an_address(cls, value: str | None) -> str | None:
        """Refuse what is no address: a fit would find out much later."""
        if value is not None and not _SCHEDULER.fullmatch(value):
            raise ValueError(f"{value!a} is not an address such as tcp://10.0.0.1:8786")
        return value


class RetentionSettings(SettingsGroup):
    """How long snapshots keep their annotators and matchups. The models' scores are kept for ever."""

    whole_days: int = Field(7, ge=1, le=36500, description="Days for which every snapshot keeps its annotators.")
    daily_days: int = Field(
        90,
        ge=0,
        le=36500,
        description="Days after that for which the last snapshot of a day keeps them; later the last of a month does.",
    )


class WebhookSettings(SettingsGroup):
    """Where webhooks may go."""

    allow_private_addresses: bool = Field(
        False,
        description="Whether webhooks may go to private addresses and by plain http: for closed networks only.",
    )
