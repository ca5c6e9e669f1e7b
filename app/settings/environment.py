"""The settings as the environment has them. Variables at fault are refused by name."""

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_settings import SettingsError

from app.errors import BadInputError, FieldError, validation_message
from app.settings.settings import DELIMITER, PREFIX, Settings

_OF_THE_TESTS = frozenset({"STABLE_ARENA_DATA", "STABLE_ARENA_TEST_DATABASE_URL"})
_UNREADABLE = re.compile(r'field "(\w+)"')


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises
    ------
    BadInputError
        A variable that begins with `STABLE_ARENA_` is not a setting, or its value is not allowed.
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
