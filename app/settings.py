import os
import re
import sys
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "STABLE_ARENA_"
DELIMITER = "__"

_FEWEST_CHARACTERS = 5  # that differ: of a random secret of digits alone one in a hundred million has fewer
_ORIGIN = re.compile(r"https?://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")


def default_data_dir() -> Path:
    """Where the embedded database lives: /var/lib for root, the user's data folder for anyone else."""
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/stable-arena")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "stable-arena"


def _none(value: object) -> object:
    """Take the word none for no limit: a variable's text cannot say it otherwise where the default is a limit."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


NO_LIMIT = BeforeValidator(_none)
PseudonymKey = Annotated[SecretStr, Field(min_length=32)]


class Group(BaseModel):
    """Settings that belong together; one that is not known is refused wherever it stands."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ServerSettings(Group):
    """Where the HTTP server listens and what it accepts."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that `serve` and `worker` log; debug has every request."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes in which `serve` answers requests; each has its own connections, queue and rate limits.",
    )
    max_body_bytes: int = Field(
        16 * 1024 * 1024, ge=1024, description="Requests with a larger body are refused before they are parsed."
    )
    body_seconds: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="Time that a request's body may take, and a second more for every 16 KiB of it.",
    )
    requests_per_minute: Annotated[int | None, NO_LIMIT] = Field(
        None,
        ge=1,
        description="Limit of every API key that has none of its own, per process; unset or `none` for none.",
    )
    anonymous_requests_per_minute: Annotated[int | None, NO_LIMIT] = Field(
        None, ge=1, description="Limit of every address that shows no valid key, per process; unset or `none` for none."
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Origins (https://host) whose pages may call the service from a browser, with commas between."
    )

    @field_validator("host")
    @classmethod
    def host_is_not_blank(cls, value: str) -> str:
        """Refuse an empty variable: to a socket it means every address there is."""
        if not value.strip():
            raise ValueError("is set but empty; 0.0.0.0 listens on every address")
        return value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def split_origins(cls, value: object) -> object:
        """Take the variable's text apart."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def origins_are_exact(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what no browser sends as an Origin, and wildcards: whoever may call is named."""
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!a} is not an origin such as https://arena.example or http://localhost:3000")
        return value


class DatabaseSettings(Group):
    """How many connections a process holds and how long it waits for one."""

    pool_size: int = Field(10, ge=1, le=200, description="Connections kept open per process.")
    connect_timeout_seconds: int = Field(5, ge=1, le=60, description="How long to wait for PostgreSQL to answer.")


class IngestSettings(Group):
    """How votes are taken: bounds of the queue for single votes and of batches, and how names and keys are met."""

    queue_size: int = Field(10_000, ge=1, description="Votes that may wait; past it requests get 503 at once.")
    commit_size: int = Field(1_000, ge=1, le=10_000, description="Votes that share one commit at most.")
    batch_bytes: int = Field(
        64 * 1024 * 1024, ge=1024, description="Bytes of batches in work at a time; past it requests get 503 at once."
    )
    idempotency_hours: int = Field(
        24, ge=24, le=8760, description="How long the answer to a request with an Idempotency-Key is kept at least."
    )
    unknown_models: Literal["create", "refuse"] = Field(
        "create", description="Whether a vote may bring a new model, or is not valid when it names an unknown one."
    )


class ImportSettings(Group):
    """Bounds of uploaded files of votes."""

    max_bytes: int = Field(1024**3, ge=1024, description="Uploads that are larger are refused.")
    max_expanded_bytes: int = Field(
        8 * 1024**3, ge=1024, description="The most that a compressed or Parquet upload may become when it is read."
    )


class ExportSettings(Group):
    """What becomes of finished exports."""

    keep_days: int = Field(7, ge=1, le=3650, description="How long their files can be downloaded.")


class WorkerSettings(Group):
    """The worker that runs refits, imports and exports."""

    run_in_server: bool = Field(
        True,
        description="Whether `serve` runs refits, imports and exports too, in a process beside; off where workers do.",
    )
    tick_seconds: float = Field(1.0, gt=0, le=3600, description="How often the worker looks for a due refit.")
    lease_seconds: float = Field(
        30.0, ge=1, le=3600, description="How long a silent worker keeps the right to publish."
    )
    fit_seconds: Annotated[float | None, NO_LIMIT] = Field(
        3600.0, gt=0, description="A fit that takes longer is ended; `none` for no limit."
    )
    fit_memory_bytes: Annotated[int | None, NO_LIMIT] = Field(
        None,
        ge=1024**3,
        description="A fit that needs more memory is ended (1 GiB at least); unset or `none` for no limit.",
    )


class RetentionSettings(Group):
    """How long snapshots keep their annotators and matchups whole; the models' scores are kept for ever."""

    whole_days: int = Field(7, ge=1, le=36500, description="Every snapshot of so many days keeps its annotators.")
    daily_days: int = Field(
        90, ge=0, le=36500, description="Then the last one of each day for so many; after that the last of each month."
    )


class WebhookSettings(Group):
    """Where webhooks may go."""

    allow_private_addresses: bool = Field(
        False,
        description="Whether webhooks may go to private addresses and by plain http: for networks without others.",
    )


class Settings(BaseSettings):
    """Everything that is set from outside: `STABLE_ARENA_…` variables, `__` between a group and its field."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        extra="ignore",
        hide_input_in_errors=True,  # a secret that is too short is a secret all the same
    )

    database_url: SecretStr | None = Field(
        None, description="postgresql://… of a PostgreSQL 15 or newer; unset starts the embedded one."
    )
    data_dir: Path = Field(default_factory=default_data_dir, description="Folder of the embedded database.")
    pseudonym_key: PseudonymKey | None = Field(
        None, description="Secret of 32 characters or more; set, annotators' keys are stored as keyed pseudonyms only."
    )
    pseudonym_key_version: int = Field(
        1, ge=1, le=9999, description="Names the secret in every pseudonym; raise it with each new secret."
    )
    pseudonym_previous_keys: dict[int, PseudonymKey] = Field(
        {}, description='Earlier secrets by version, as JSON ({"1": "…"}): they recognise the annotators they named.'
    )
    allow_raw_keys: bool = Field(
        False, description="Whether to run without a secret, storing raw keys, where those on record are pseudonyms."
    )
    public_leaderboard: bool = Field(True, description="Whether the leaderboard is readable without a key.")
    public_metrics: bool = Field(False, description="Whether /metrics is readable without a key.")
    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    ingest: IngestSettings = IngestSettings()
    imports: ImportSettings = ImportSettings()
    exports: ExportSettings = ExportSettings()
    worker: WorkerSettings = WorkerSettings()
    webhooks: WebhookSettings = WebhookSettings()
    retention: RetentionSettings = RetentionSettings()

    @field_validator("database_url")
    @classmethod
    def url_is_not_blank(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse an empty variable: a lost secret must not put votes into another database."""
        if value is not None and not value.get_secret_value().strip():
            raise ValueError("is set but empty; leave it unset for the embedded database")
        return value

    @field_validator("data_dir", mode="before")
    @classmethod
    def data_dir_is_a_place(cls, value: object) -> object:
        """Refuse an empty variable, which would be the current folder, and know `~` for the home folder."""
        if not isinstance(value, str):
            return value
        if not value.strip():
            raise ValueError("is set but empty; leave it unset for the usual folder")
        try:
            return Path(value).expanduser()
        except RuntimeError:
            raise ValueError("begins with ~ but there is no such home folder") from None

    @field_validator("pseudonym_key")
    @classmethod
    def pseudonym_key_is_a_secret(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse what is long but no secret. Earlier ones are taken as they are: they recognise whom they named."""
        if value is not None and len(set(value.get_secret_value().strip())) < _FEWEST_CHARACTERS:
            raise ValueError("has hardly any different characters; `openssl rand -hex 32` makes a good one")
        return value

    @model_validator(mode="after")
    def commit_fits_queue(self) -> Self:
        """Refuse a commit larger than the queue: it could never fill."""
        if self.ingest.commit_size > self.ingest.queue_size:
            raise ValueError(
                f"{PREFIX}INGEST__COMMIT_SIZE: is {self.ingest.commit_size}, more than "
                f"{PREFIX}INGEST__QUEUE_SIZE, which is {self.ingest.queue_size}"
            )
        return self

    @model_validator(mode="after")
    def previous_keys_have_a_successor(self) -> Self:
        """Refuse earlier secrets without one in force, which would store raw keys, or in its place."""
        if self.pseudonym_previous_keys and self.pseudonym_key is None:
            raise ValueError(f"{PREFIX}PSEUDONYM_PREVIOUS_KEYS: is set but {PREFIX}PSEUDONYM_KEY is not")
        if self.pseudonym_key_version in self.pseudonym_previous_keys:
            raise ValueError(f"{PREFIX}PSEUDONYM_KEY_VERSION: is the version of a previous key; raise it")
        return self

    def pseudonym_secrets(self) -> dict[int, bytes]:
        """Return every pseudonym secret by its version; none where keys are stored as they come."""
        if self.pseudonym_key is None:
            return {}
        keys = {**self.pseudonym_previous_keys, self.pseudonym_key_version: self.pseudonym_key}
        return {version: key.get_secret_value().encode() for version, key in keys.items()}
