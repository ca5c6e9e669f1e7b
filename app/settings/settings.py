"""All settings of the service, what must hold between them, and how they are read from the environment."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Self, get_origin

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from app.errors import BadInputError, FieldError, validation_message
from app.settings.groups import (
    BattleSettings,
    DatabaseSettings,
    ExportSettings,
    FitSettings,
    ImportSettings,
    IngestSettings,
    OidcSettings,
    PageSettings,
    RetentionSettings,
    ServerSettings,
    SessionSettings,
    WebhookSettings,
    WorkerSettings,
)

PREFIX = "STABLE_ARENA_"
DELIMITER = "__"

PseudonymKey = Annotated[SecretStr, Field(min_length=32)]
_MIN_DISTINCT = 5  # characters; of random secrets of digits one in a hundred million has fewer


def default_data_dir() -> Path:
    """Return the data folder: in /var/lib for root, else in the user's data folder."""
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/stable-arena")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "stable-arena"


class Settings(BaseSettings):
    """Everything that is set from outside, by variables such as `STABLE_ARENA_SERVER__PORT` for `server.port`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=DELIMITER,
        extra="ignore",
        hide_input_in_errors=True,  # a secret that is too short is still a secret
    )

    database_url: SecretStr | None = Field(
        None, description="postgresql://… of a PostgreSQL 15 or newer; unset starts the embedded one."
    )
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Folder of the embedded database, and of the votes that workers keep for the next refit.",
    )
    pseudonym_key: PseudonymKey | None = Field(
        None,
        description="Secret of 32 characters or more; with it annotators' keys are stored as keyed pseudonyms only.",
    )
    pseudonym_key_version: int = Field(
        1, ge=1, le=9999, description="Version of the secret, part of every pseudonym; raise it with each new secret."
    )
    pseudonym_previous_keys: dict[int, PseudonymKey] = Field(
        {}, description='Earlier secrets by version, as JSON ({"1": "…"}); they recognise the annotators they named.'
    )
    allow_raw_keys: bool = Field(
        False, description="Whether to run without a secret and store raw keys where the stored keys are pseudonyms."
    )
    public_leaderboard: bool = Field(True, description="Whether the leaderboard is readable without a key.")
    public_metrics: bool = Field(False, description="Whether /metrics is readable without a key.")
    server: ServerSettings = ServerSettings()
    pages: PageSettings = PageSettings()
    sessions: SessionSettings = SessionSettings()
    oidc: OidcSettings = OidcSettings()
    database: DatabaseSettings = DatabaseSettings()
    ingest: IngestSettings = IngestSettings()
    battles: BattleSettings = BattleSettings()
    imports: ImportSettings = ImportSettings()
    exports: ExportSettings = ExportSettings()
    worker: WorkerSettings = WorkerSettings()
    fit: FitSettings = FitSettings()
    webhooks: WebhookSettings = WebhookSettings()
    retention: RetentionSettings = RetentionSettings()

    @field_validator("database_url")
    @classmethod
    def url_is_not_blank(cls, value: SecretStr | None) -> SecretStr | None:
        """Refuse an empty variable: without its secret the service must not write into another database."""
        if value is not None and not value.get_secret_value().strip():
            raise ValueError("is set but empty; leave it unset for the embedded database")
        return value

    @field_validator("data_dir", mode="before")
    @classmethod
    def data_dir_is_a_place(cls, value: object) -> object:
        """Refuse an empty variable, which would mean the current folder; expand `~` to the home folder."""
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
        """Refuse a long text that is no secret, such as 40 blanks. Previous keys are taken as they are."""
        if value is not None and len(set(value.get_secret_value().strip())) < _MIN_DISTINCT:
            raise ValueError("has hardly any different characters; `openssl rand -hex 32` makes a good one")
        return value

    @model_validator(mode="after")
    def previous_keys_have_a_successor(self) -> Self:
        """Refuse previous keys without a current key, and a current key with the version of a previous one."""
        if self.pseudonym_previous_keys and self.pseudonym_key is None:
            raise ValueError(f"{PREFIX}PSEUDONYM_PREVIOUS_KEYS: is set but {PREFIX}PSEUDONYM_KEY is not")
        if self.pseudonym_key_version in self.pseudonym_previous_keys:
            raise ValueError(f"{PREFIX}PSEUDONYM_KEY_VERSION: is the version of a previous key; raise it")
        return self

    def pseudonym_secrets(self) -> dict[int, bytes]:
        """Return every pseudonym secret by its version; none where raw keys are stored."""
        if self.pseudonym_key is None:
            return {}
        keys = {**self.pseudonym_previous_keys, self.pseudonym_key_version: self.pseudonym_key}
        return {version: key.get_secret_value().encode() for version, key in keys.items()}


_OF_THE_TESTS = frozenset({"STABLE_ARENA_DATA", "STABLE_ARENA_TEST_DATABASE_URL"})
_UNREADABLE = re.compile(r'field "(\w+)"')


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises BadInputError: a variable that begins with `STABLE_ARENA_` is not a setting, or its value is not allowed.
    """
    if unknown := unknown_variables(os.environ):
        raise BadInputError("the settings are not valid", unknown)
    try:
        return Settings()
    except SettingsError as error:
        raise BadInputError("the settings are not valid", (_unreadable(error),)) from None
    except ValidationError as error:
        errors = tuple(_field_error(each) for each in error.errors(include_input=False))
        raise BadInputError("the settings are not valid", errors) from None


def unknown_variables(environment: Mapping[str, str]) -> tuple[FieldError, ...]:
    """Return an error for every variable with our prefix that is not a setting, with the most similar name."""
    known, mappings, names = set(_variables(Settings)), tuple(_mappings(Settings)), setting_names()
    errors = []
    for variable in sorted(environment):
        name = variable.upper()  # pydantic-settings ignores the case
        if name.startswith(PREFIX) and name not in known | _OF_THE_TESTS and not name.startswith(mappings):
            nearest = get_close_matches(name, names, n=1, cutoff=0)[0]
            errors.append(FieldError(variable, f"is not a setting; the nearest is {nearest}"))
    return tuple(errors)


def setting_names() -> list[str]:
    """Return the variables of all settings, one each, in their order."""
    groups = {f"{PREFIX}{name.upper()}" for name, field in Settings.model_fields.items() if _group(field.annotation)}
    return [name for name in _variables(Settings) if name not in groups]


def _variables(model: type[BaseModel], prefix: str = PREFIX) -> Iterator[str]:
    """Yield every variable that sets something; a group can also be set as a whole, in JSON."""
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        yield variable
        group = _group(field.annotation)
        if group is not None:
            yield from _variables(group, variable + DELIMITER)


def _mappings(model: type[BaseModel]) -> Iterator[str]:
    """Yield the prefix of the variables that each set one entry of a mapping, as PSEUDONYM_PREVIOUS_KEYS__1 does."""
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is dict:
            yield f"{PREFIX}{name.upper()}{DELIMITER}"


def _group(kind: Any) -> type[BaseModel] | None:
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _unreadable(error: SettingsError) -> FieldError:
    """Name the variable that is not JSON; its text may be a secret and is not repeated."""
    named = _UNREADABLE.search(str(error))
    return FieldError(PREFIX + (named[1].upper() if named else ""), "is not valid JSON")


def _field_error(error: Mapping[str, Any]) -> FieldError:
    message = validation_message(error)
    if error["loc"]:
        return FieldError(PREFIX + DELIMITER.join(str(part) for part in error["loc"]).upper(), message)
    name, _, detail = message.partition(": ")  # a validator of several settings names the variable itself
    return FieldError(name, detail)
