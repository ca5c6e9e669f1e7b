"""The settings as the environment has them: read whole, or refused with the names of the variables at fault."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_settings import SettingsError

from app.errors import BadInputError, FieldError
from app.settings import DELIMITER, PREFIX, Settings

_NOT_SETTINGS = frozenset({"STABLE_ARENA_DATA", "STABLE_ARENA_TEST_DATABASE_URL"})
"""What the tests and benchmarks read."""

_LIKENESS = 0.75  # from which a name is taken for a misspelt one; what is less like any is somebody else's

# Where a Kubernetes service is called stable-arena, or stable-arena-worker, every container is told where it is.
_OF_KUBERNETES = re.compile(r"\w*_SERVICE_(HOST|PORT(_\w+)?)=.*|\w*_PORT(_\d+_\w+)?=(tcp|udp|sctp)://.*")
_OF_KUBERNETES_PORTS = re.compile(r"\w*_PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?")
_UNREADABLE = re.compile(r'field "(\w+)"')


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises
    ------
    BadInputError
        A variable has a value that its setting does not allow, or a name much like a setting's: a misspelt one must
        not be taken for unset.
    """
    misspelt = misspelt_variables(os.environ)
    if misspelt:
        more = f" (and {len(misspelt) - 1} more)" if len(misspelt) > 1 else ""
        raise BadInputError(misspelt[0] + more)
    try:
        return Settings()
    except SettingsError as error:
        raise BadInputError("the settings are not valid", (_unreadable(error),)) from None
    except ValidationError as error:
        errors = tuple(_field_error(each) for each in error.errors(include_input=False))
        raise BadInputError("the settings are not valid", errors) from None


def misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """Say of every variable that is no setting, but named much like one, which one may be meant."""
    known, open_ended = set(_variables(Settings)), tuple(_open_ended(Settings))
    names = [name.removeprefix(PREFIX) for name in setting_names()]
    said = []
    for given, value in sorted(environment.items()):
        name = given.upper()  # as pydantic-settings takes them
        if not name.startswith(PREFIX) or name in known | _NOT_SETTINGS or name.startswith(open_ended):
            continue
        if _OF_KUBERNETES.fullmatch(f"{name}={value}") or _OF_KUBERNETES_PORTS.fullmatch(name):
            continue
        nearest = difflib.get_close_matches(name.removeprefix(PREFIX), names, n=1, cutoff=_LIKENESS)
        if nearest:
            said.append(f"{given} is not a setting; did you mean {PREFIX}{nearest[0]}?")
    return said


def setting_names() -> list[str]:
    """Return the variables of all settings, one each, in their order."""
    groups = {f"{PREFIX}{name.upper()}" for name, field in Settings.model_fields.items() if _group(field.annotation)}
    return [name for name in _variables(Settings) if name not in groups]


def _variables(model: type[BaseModel], prefix: str = PREFIX) -> Iterator[str]:
    """Yield every variable that sets something; a group can also be set whole, as JSON."""
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        yield variable
        group = _group(field.annotation)
        if group is not None:
            yield from _variables(group, variable + DELIMITER)


def _open_ended(model: type[BaseModel]) -> Iterator[str]:
    """Yield how the variables begin that each set one entry of a mapping."""
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is dict:
            yield f"{PREFIX}{name.upper()}{DELIMITER}"


def _group(kind: Any) -> type[BaseModel] | None:
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _unreadable(error: SettingsError) -> FieldError:
    """Say which variable is not the JSON that it has to be; its text, which may be a secret, is not repeated."""
    named = _UNREADABLE.search(str(error))
    return FieldError(PREFIX + (named[1].upper() if named else ""), "is not valid JSON")


def _field_error(error: Mapping[str, Any]) -> FieldError:
    said = str(error["ctx"]["error"]) if error["type"] == "value_error" else str(error["msg"])
    if error["loc"]:
        return FieldError(PREFIX + DELIMITER.join(str(part) for part in error["loc"]).upper(), said)
    name, _, detail = said.partition(": ")  # of settings that do not go together, where the message names them
    return FieldError(name, detail)
