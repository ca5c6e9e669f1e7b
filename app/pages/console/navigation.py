"""The links of the console: a new page is one line here. A visitor sees the pages that the key's scopes allow."""

from typing import NamedTuple

from app.auth.callers import Caller, Scope


class Section(NamedTuple):
    """A page of the console, and the scope that it needs."""

    address: str
    text: str
    scope: Scope


SECTIONS = (
    Section("/console/reviews", "Review", "review:read"),
    Section("/console/appeals", "Appeals", "review:read"),
    Section("/console/annotators", "Annotators", "review:read"),
    Section("/console/abilities", "Abilities", "review:read"),
    Section("/console/retractions", "Retractions", "review:read"),
    Section("/console/merges", "Merges", "admin"),
    Section("/console/policy", "Policy", "admin"),
    Section("/console/refits", "Refits", "review:read"),
    Section("/console/imports", "Imports", "ingest"),
    Section("/console/keys", "Keys", "admin"),
    Section("/console/webhooks", "Webhooks", "admin"),
    Section("/console/audit", "Audit", "review:read"),
    Section("/console/health", "Health", "review:read"),
)


def sections_of(caller: Caller) -> list[Section]:
    """Return the pages that the caller may see."""
    return [section for section in SECTIONS if caller.may(section.scope)]


def first_page(caller: Caller) -> str:
    """Return the address at which the caller begins."""
    found = sections_of(caller)
    return found[0].address if found else "/"
