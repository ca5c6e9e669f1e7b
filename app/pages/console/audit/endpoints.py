"""The audit log: who did what, found by action, actor and subject; and the check that no entry was changed."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query, Response

from app.api.dependencies import ReadView
from app.api.pagination import BigNumber, Name
from app.audit.names import is_id, names_of
from app.audit.service import AuditEntry, TamperedAuditLogError, list_entries, verify_log
from app.pages.console.rendering import Reader, console_router
from app.pages.formatting import model_address
from app.snapshots.queries import list_audit_heads

router = console_router("audit")

_SHOWN = 50


@router.get("")
def get_audit(
    console: Reader,
    conn: ReadView,
    action: Name = "",
    actor: Name = "",
    subject: Name = "",
    before: Annotated[BigNumber | None, Query()] = None,
) -> Response:
    """List entries, the newest first."""
    chosen = {"action": action.strip(), "actor": actor.strip(), "subject": subject.strip()}
    found = list_entries(conn, limit=_SHOWN + 1, before=before, **{name: text or None for name, text in chosen.items()})
    names = names_of(conn, (str(value) for one in found[:_SHOWN] for value in (one.subject, *one.detail.values())))
    return console.page(
        "audit/page.html",
        entries=[show_entry(entry, names) for entry in found[:_SHOWN]],
        next_before=found[_SHOWN - 1].number if len(found) > _SHOWN else None,
        actions=ACTIONS,
        chosen=chosen,
        before=before,
    )


@router.get("/verify")
def get_verify(console: Reader, conn: ReadView) -> Response:
    """Check every entry's hash, and that the log holds the hashes that snapshots carry."""
    noted = {f"snapshot {number}": head for number, head in list_audit_heads(conn)}
    found, problem = None, None
    try:
        found = verify_log(conn, noted)
    except TamperedAuditLogError as error:
        problem = error.detail
    return console.page("audit/verify.html", found=found, problem=problem, snapshots=len(noted))


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


def show_entry(entry: AuditEntry, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry as its page shows it; `names` are those of ids.

    Facts are the detail, each the name, the text and, where the text stands for an id, the id.
    """
    facts = [
        (name.replace("_", " "), names[value], value) if is_id(value) else (name.replace("_", " "), _text(value), "")
        for name, value in entry.detail.items()
        if value is not None
    ]
    subject = entry.subject
    address = _address(entry.action, subject)
    return {"entry": entry, "subject": names.get(subject, subject), "facts": facts, "address": address}


def _address(action: str, subject: str) -> str | None:
    if action in _PAGES:
        return _PAGES[action].format(subject)
    family = action.partition(".")[0]
    if family == "model" and not is_id(subject):
        return model_address(subject)
    return _PAGES[family].format(subject) if family in _PAGES else None


_PAGES = {
    "decision": "/console/annotators/{}",
    "votes.retract.annotator": "/console/annotators/{}",
    "votes.retract.import": "/console/imports/{}",
    "votes.retraction.withdraw": "/console/retractions",
    "policy": "/console/policy/versions/{}",
    "refit": "/console/refits/{}",
    "webhook": "/console/webhooks/{}",
    "key": "/console/keys",
}
"""The page of the subject, by the action or its first part."""


def _text(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(pair, list) and len(pair) == 2 for pair in value.values()):  # noqa: PLR2004  before and after
        return "; ".join(f"{name}: {_text(old)} → {_text(new)}" for name, (old, new) in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
