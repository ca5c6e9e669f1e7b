"""Entries of the audit log in words."""

import json
from dataclasses import dataclass
from typing import Any

from app.audit.service import AuditEntry

ACTIONS: dict[str, str] = {
    "decision": "decisions on annotators",
    "policy": "the policy",
    "refit": "refits",
    "key": "keys",
    "session": "sessions",
    "model": "models",
    "annotator": "annotators",
    "votes": "retractions of votes",
    "webhook": "webhooks",
}
"""The first part of actions, and what they are about."""


@dataclass(frozen=True)
class ShownEntry:
    """An entry and its detail as pairs of a name and a text; `address` is the page of what it was done to."""

    entry: AuditEntry
    facts: list[tuple[str, str]]
    address: str | None


def show_entry(entry: AuditEntry) -> ShownEntry:
    """Return the entry as its page shows it."""
    facts = [(name.replace("_", " "), _text(value)) for name, value in entry.detail.items() if value is not None]
    address = None
    if entry.action.startswith("decision."):
        address = f"/console/annotators/{entry.subject}"
    elif entry.action == "policy.set":
        address = f"/console/policy/versions/{entry.subject}"
    elif entry.action.startswith("refit."):
        address = f"/console/refits/{entry.subject}"
    return ShownEntry(entry, facts, address)


def _text(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(pair, list) and len(pair) == 2 for pair in value.values()):  # noqa: PLR2004  before and after
        return "; ".join(f"{name}: {_text(old)} → {_text(new)}" for name, (old, new) in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
