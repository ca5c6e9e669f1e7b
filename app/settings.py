import os
import sys
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


def default_data_dir() -> Path:
    """Where the embedded database lives: /var/lib for root, the user's data folder for anyone else."""
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/stable-arena")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "stable-arena"


class ServerSettings(BaseModel):
    """Where the HTTP server listens and what it accepts."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that is logged; debug has every request."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    max_body_bytes: int = Field(
        16 * 1024 * 1024, ge=1024, description="Requests with a larger body are refused before they are parsed."
    )


class DatabaseSettings(BaseModel):
    """How many connections a process holds and how long it waits for one."""

    pool_size: int = Field(10, ge=1, le=200, description="Connections kept open per process.")
    connect_timeout_seconds: int = Field(5, ge=1, le=60, description="How long to wait for PostgreSQL to answer.")


class IngestSettings(BaseModel):
    """Bounds of the queue in which single votes wait for their shared commit."""

    queue_size: int = Field(10_000, ge=1, description="Votes that may wait; past it requests get 503 at once.")
    commit_size: int = Field(1_000, ge=1, le=10_000, description="Votes that share one commit at most.")


class WorkerSettings(BaseModel):
    """The worker that runs refits."""

    run_in_server: bool = Field(True, description="Whether `serve` runs refits too; off where workers do.")
    tick_seconds: float = Field(1.0, gt=0, le=3600, description="How often the worker looks for a due refit.")
    lease_seconds: float = Field(
        30.0, ge=1, le=3600, description="How long a silent worker keeps the right to publish."
    )
    fit_seconds: float | None = Field(3600.0, gt=0, description="A fit that takes longer is ended; unset for no limit.")
    fit_memory_bytes: int | None = Field(
        None, ge=1024**3, description="A fit that needs more memory is ended; unset for no limit."
    )


class WebhookSettings(BaseModel):
    """Where webhooks may go."""

    allow_private_addresses: bool = Field(
        False,
        description="Whether webhooks may go to private addresses and by plain http: for networks without others.",
    )


class Settings(BaseSettings):
    """Everything that is set from outside: `STABLE_ARENA_…` variables, `__` between a group and its field."""

    model_config = SettingsConfigDict(env_prefix="STABLE_ARENA_", env_nested_delimiter="__", extra="ignore")

    database_url: SecretStr | None = Field(
        None, description="postgresql://… of a PostgreSQL 15 or newer; unset starts the embedded one."
    )
    data_dir: Path = Field(default_factory=default_data_dir, description="Folder of the embedded database.")
    public_leaderboard: bool = Field(True, description="Whether the leaderboard is readable without a key.")
    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    ingest: IngestSettings = IngestSettings()
    worker: WorkerSettings = WorkerSettings()
    webhooks: WebhookSettings = WebhookSettings()

    @field_validator("database_url")
    @classmethod
    def url_is_not_blank(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse an empty variable: a lost secret must not put votes into another database."""
        if value is not None and not value.get_secret_value().strip():
            raise ValueError("is set but empty; leave it unset for the embedded database")
        return value

    @model_validator(mode="after")
    def commit_fits_queue(self) -> Self:
        """Refuse a commit larger than the queue: it could never fill."""
        if self.ingest.commit_size > self.ingest.queue_size:
            msg = "ingest.commit_size must not exceed ingest.queue_size"
            raise ValueError(msg)
        return self
