"""Converts values of JSON and Parquet to text without guessing, and parses tags and metadata."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from app.imports.formats.schemas import Input
from app.naming.names import name_error
from app.votes.rules import MOST_RANKED, Features, metadata_error, ranking_error, tag_errors

MAX_EXACT_FLOAT = 2.0**53
"""Up to this value floats represent every whole number exactly."""
_FEATURES: TypeAdapter[Features] = TypeAdapter(Features, config=ConfigDict(defer_build=True))


def name_text(value: object) -> str | None:
    """Return a name or outcome word as text; null stays null, a whole number becomes its digits.

    Of an object the `id` is taken. Raises ValueError: NaN, a fraction, true, false, a list, another object or half of a
    surrogate pair.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("must not be NaN")
        if value.is_integer() and abs(value) <= MAX_EXACT_FLOAT:
            return str(int(value))  # pandas turns whole numbers into floats where one is missing
        raise ValueError(f"must be text, is the number {value!r}")
    if isinstance(value, dict) and isinstance(value.get("id"), str | int):  # the person, or model, with its particulars
        return name_text(value["id"])
    kinds = {bool: "true or false", list: "a list", dict: "an object"}
    raise ValueError(f"must be text, is {kinds.get(type(value), type(value).__name__)}")


def timestamp_text(value: object) -> str | None:
    """Return a timestamp, or another number, as text; a number keeps all its digits.

    Raises ValueError: true, false, a list, an object or half of a surrogate pair.
    """
    if isinstance(value, float):
        return repr(value)
    return name_text(value)


def document_text(value: object) -> str | None:
    """Return tags or metadata as text: text unchanged, lists and objects as JSON.

    Raises ValueError: a number, true, false, or half of a surrogate pair.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    raise ValueError(f"must be text, a list or an object, is {value!r}")


def measure_text(value: object) -> str | None:
    """Return a number, or an object of numbers, as text."""
    return json.dumps(value) if isinstance(value, dict | float) else name_text(value)


def prompt_text(value: object) -> str | None:
    """Return a prompt as text, of whatever kind it is: a conversation as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return json.dumps(value, default=str, sort_keys=True) if isinstance(value, list | dict) else str(value)


def flag_text(value: object) -> str | None:
    """Return a flag or a number as text.

    Raises ValueError: a list or an object.
    """
    return str(value).lower() if isinstance(value, bool) else timestamp_text(value)


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"must not contain the lone surrogate U+{ord(value[error.start]):04X}") from None
    return value


def any_text(value: object) -> str | None:
    """Return any value as text: true, false, numbers as they are, lists and objects as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, default=str) if isinstance(value, list | dict) else None if value is None else str(value)


def list_text(value: object) -> str | None:
    """Return a list or an object as JSON; a text is one already. Raises ValueError: anything else."""
    if value is None or isinstance(value, str | list | dict):
        return any_text(value)
    raise ValueError("must be a list")


APART = "\x00"
"""Stands before the input of which a column is, where there are several columns of an input."""
DOCUMENT = "[]"
"""The name for a column whose lists are expanded."""
_SPECIAL: Mapping[str, Callable[[object], str | None]] = {
    **dict.fromkeys(("voted_at", "propensity", "winner", "grade", "rank", "weight", "cost"), timestamp_text),
    **dict.fromkeys(("tags", "metadata", "features", "ranking"), document_text),
    **dict.fromkeys(("wins_a", "wins_b", "ties", "equal"), flag_text),
    "asked": prompt_text,
    DOCUMENT: list_text,
}


def text_of(name: Input) -> Callable[[object], str | None]:
    """Return the function that converts values of this input to text."""
    called = name.rpartition(APART)[2]
    if called.startswith("?"):
        return any_text
    return _SPECIAL.get(called, name_text if called in get_args(Input) else measure_text)


def convert_each(values: Iterable[Any], convert: Callable[[Any], object]) -> tuple[list[Any], dict[int, str]]:
    """Return the values converted, None where that raises ValueError, and the errors by row."""
    converted, why = list[object](), dict[int, str]()
    for row, value in enumerate(values):
        try:
            converted.append(convert(value))
        except ValueError as error:
            converted.append(None)
            why[row] = str(error)
    return converted, why


def parse_tags(text: str) -> list[str]:
    """Return the tags of a JSON list, or of texts separated by semicolons.

    Raises ValueError: neither of the two, too many tags, or an invalid tag.
    """
    tags = _decoded(text) if text.lstrip().startswith(("[", "{")) else [tag.strip() for tag in text.split(";")]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("must be a list of texts")
    for fault in tag_errors(tags):
        raise ValueError(fault.detail if fault.pointer == "/tags" else f"a tag {fault.detail}")
    return tags


def parse_metadata(text: str) -> str:
    """Return the metadata, a JSON object, as compact JSON text that PostgreSQL's jsonb accepts.

    Raises ValueError: not a JSON object, or one that metadata must not be.
    """
    metadata = _decoded(text)
    if not isinstance(metadata, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004  an error in the text, not in a type
    if fault := metadata_error(metadata):
        raise ValueError(fault)
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))


def parse_features(text: str) -> str:
    """Return the features, a JSON object, as compact JSON text; one that is null is left out.

    Raises ValueError: not an object of pairs of numbers.
    """
    features = _decoded(text)
    if isinstance(features, dict):
        features = {name: measures for name, measures in features.items() if measures is not None}
    try:
        return _FEATURES.dump_json(_FEATURES.validate_python(features)).decode()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"/{part}" for part in first["loc"])
        raise ValueError(f"{place} {first.get('ctx', {}).get('error') or first['msg']}".strip()) from None


def parse_ranking(text: str, most: int = MOST_RANKED) -> str:
    """Return a ranking, a JSON list of names or of groups of names, with names as text.

    Raises
    ------
    ValueError : no ranking, or an invalid name.
    """
    groups = _decoded(text)
    if not isinstance(groups, list):
        raise ValueError(  # noqa: TRY004  an error in the text, not in a type
            'must be a list of models, or of groups of models, such as [["best"], ["second", "its equal"]]'
        )
    names = [[name_text(name) or "" for name in (one if isinstance(one, list) else [one])] for one in groups]
    fault = ranking_error(names, most) or next(
        (fault for group in names for name in group if (fault := name_error(name))), None
    )
    if fault:
        raise ValueError(fault)
    return json.dumps(names, ensure_ascii=False)


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
