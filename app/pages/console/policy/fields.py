"""The policy as a form: a field for each setting, made from its type and description."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from app.policy.schemas import Anchor, Policy
from app.policy.service import find_policy
from app.review.previews import PolicyPreviews

FIRST = (
    *("min_votes", "min_ability", "on_low_ability", "min_board_annotators", "min_board_votes", "min_model_votes"),
    *("refit_interval_seconds", "battle_policy"),
)
"""The settings that people change; the others are behind "more"."""

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Which votes count", ("min_votes", "max_votes_per_day", "on_conflict")),
    (
        "Which annotators are flagged",
        (
            *("flag_rule", "min_ability", "min_probability", "evidence_ratio", "evidence_tests"),
            *("release_margin", "on_low_ability", "max_excluded_share"),
        ),
    ),
    (
        "Which models are ranked",
        (
            *("min_board_annotators", "min_board_votes", "min_model_votes", "min_model_annotators"),
            "max_interval_width",
        ),
    ),
    ("The fit", ("prior_sd", "influence_limit", "interval", "base", "anchor")),
    ("Refits", ("refit_interval_seconds", "refit_after_votes", "stale_after_seconds")),
    ("Categories", ("dimensions", "category_weights", "max_tag_boards")),
)
MOST_CHANGED, OTHERS = "What most arenas set", "Battles and more"
"""Settings that are in none of the groups."""

GivenTexts = Mapping[str, Sequence[str]]
"""What a form has, by the names of its fields."""

Kind = Literal["number", "integer", "flag", "choice", "several", "names", "text", "table", "anchor"]


@dataclass(frozen=True)
class PolicyField:
    """A setting in the form.

    Attributes
    ----------
    text : its value as the form shows it; of several, they are in `chosen`
    optional : whether empty means none
    """

    name: str
    kind: Kind
    description: str
    text: str
    chosen: Sequence[str] = ()
    choices: Sequence[str] = ()
    optional: bool = False
    error: str | None = None

    @property
    def label(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ")


def describe_fields(
    values: Mapping[str, Any], errors: Mapping[str, str] | None = None
) -> list[tuple[str, list[PolicyField]]]:
    """Return the groups of the form, `FIRST` before the others, with these values and what is wrong with them."""
    properties = Policy.model_json_schema()["properties"]
    found = errors or {}
    fields = {name: _field(name, schema, values.get(name), found.get(name)) for name, schema in properties.items()}
    first = [fields.pop(name) for name in FIRST]
    groups = [(title, [fields.pop(name) for name in names if name in fields]) for title, names in GROUPS]
    return [(MOST_CHANGED, first), *(group for group in groups if group[1]), (OTHERS, [*fields.values()])]


def read_form(form: GivenTexts) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings that a form of these fields has, and by name what is wrong with them."""
    values: dict[str, Any] = {}
    for _, fields in describe_fields({}):
        for field in fields:
            given = form.get(field.name) or [""]
            several = [text for text in given if text]
            values[field.name] = several if field.kind == "several" else _value(field, given[-1])
    return values, find_errors(values)


def find_errors(values: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with settings, by name; "" for what is wrong with them together."""
    try:
        Policy.model_validate(values)
    except ValidationError as error:
        found = reversed(error.errors())  # the first of a setting stays: a number's, before those of its words
        return {str(one["loc"][0]) if one["loc"] else "": _words(one["msg"]) for one in found}
    return {}


def changed(before: Policy, after: Policy) -> list[tuple[str, str, str]]:
    """Return the settings that differ: name, before, after."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [(name, show(old[name]), show(value)) for name, value in new.items() if old[name] != value]


def differing(policy: Policy, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the policy's settings, by name, that differ from these values."""
    texts = {name: show(value) for name, value in policy.model_dump(mode="json").items()}
    return {name: in_force for name, in_force in texts.items() if in_force != show(values.get(name))}


def show(value: Any) -> str:
    """Write a setting: none, yes, 1,000, random, 0.2."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and isinstance(value.get("score"), int | float):
        return _anchor(value)
    if isinstance(value, dict):
        return json.dumps(value) if value else "none"
    if isinstance(value, list | tuple):
        return ", ".join(value) or "none"
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


def _field(name: str, schema: Mapping[str, Any], value: Any, error: str | None) -> PolicyField:
    parts = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    part = parts[0]
    field: dict[str, Any] = {"text": _text(value), "optional": {"type": "null"} in schema.get("anyOf", ())}
    match part:
        case _ if len(parts) > 1:
            field |= {"kind": "text"}
        case {"$ref": _}:
            field |= {"kind": "anchor", "text": _anchor(value)}
        case {"type": "object"}:
            field |= {"kind": "table", "text": json.dumps(value or {})}
        case {"type": "boolean"}:
            field |= {"kind": "flag", "text": "yes" if value else ""}
        case {"type": "array"} if not schema["default"]:
            field |= {"kind": "names", "text": ", ".join(value or ()), "optional": True}
        case {"type": "array"}:
            field |= {"kind": "several", "chosen": tuple(value or ()), "choices": schema["default"]}
        case {"enum": choices}:
            field |= {"kind": "choice", "choices": choices}
        case {"type": kind}:
            field |= {"kind": kind}  # a number, or an integer
    return PolicyField(name=name, description=schema["description"], error=error, **field)


def _value(field: PolicyField, text: str) -> Any:
    text = text.strip()
    if field.kind == "flag":
        return bool(text)
    if field.kind == "names":
        return [name for part in text.split(",") if (name := part.strip())]
    if not text and field.optional:
        return None
    try:
        if field.kind == "table":
            return json.loads(text or "{}")
        if field.kind in ("number", "integer") or (field.optional and field.kind != "anchor"):
            number = float(text)
            return int(number) if number.is_integer() else number
    except ValueError:
        pass  # `find_errors` names it
    return text


def _anchor(value: Any) -> str:
    """Write an anchor as the field takes it; what was typed stays as it is."""
    return str(Anchor.model_construct(**value)) if isinstance(value, dict) else _text(value)


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def _words(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be", "must be")


WORDS = {
    "flagged": "newly flagged",
    "excluded": "newly excluded",
    "pending": "with too few votes now",
    "back_in": "back in the fit",
    "cleared": "cleared of a flag",
}
_LISTED = 50


def preview_policy(previews: PolicyPreviews, settings: Policy) -> dict[str, Any]:
    """Fit the votes under these settings and return what the page shows of the result."""
    preview = previews.preview(settings)
    with previews.database.read() as conn:
        before = find_policy(conn, preview.policy_version).settings
    annotators = preview.annotators[:_LISTED]
    return {
        "preview": preview,
        "changes": changed(before, settings),
        "words": WORDS,
        "annotators": annotators,
        "more": sum(preview.counts.values()) - len(annotators),
        "moves": [one for one in preview.models if one.changed],
    }
