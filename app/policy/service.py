from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping

from app.errors import NotFoundError
from app.policy import queries as store
from app.policy.schemas import Anchor, Policy, PolicyVersion
from app.rating.settings import EVIDENCE_TESTS, FlagRule


def current_policy(conn: Connection) -> PolicyVersion:
    """Return the policy in force."""
    return list_policies(conn, limit=1)[0]


def list_policies(conn: Connection, *, limit: int, until: int | None = None) -> list[PolicyVersion]:
    """Return the latest versions, of all or up to one, the newest first."""
    return [as_version(row) for row in store.list_policies(conn, limit=limit, until=until)]


def find_policy(conn: Connection, version: int) -> PolicyVersion:
    """Return a version. Raises NotFoundError."""
    found = list_policies(conn, limit=1, until=version)
    if not found or found[0].version != version:
        raise NotFoundError(f"the policy has no version {version}")
    return found[0]


def policy_before(conn: Connection, version: int) -> PolicyVersion | None:
    """Return the version before this one, None for the first."""
    return next(iter(list_policies(conn, limit=1, until=version - 1)), None)


def stored_policy(settings: Mapping[str, Any]) -> Policy:
    """Return a policy that is on record, even where today's rules would refuse it.

    An earlier version of the service may have had wider bounds. Its policies can still be read and replaced. It may
    also have had settings, such as those in `REMOVED`, and tests that no longer exist: they are left out. In place of a
    flag rule that no longer exists stands the default.
    """
    settings = {name: value for name, value in settings.items() if name in Policy.model_fields}
    if settings.get("flag_rule") not in get_args(FlagRule):
        settings.pop("flag_rule", None)
    tests = settings.get("evidence_tests", EVIDENCE_TESTS)
    known = tuple(test for test in EVIDENCE_TESTS if test in tests) or EVIDENCE_TESTS
    settings = {**settings, "evidence_tests": known, "style_features": tuple(settings.get("style_features", ()))}
    if (anchor := settings.get("anchor")) is not None:
        settings["anchor"] = Anchor.model_construct(**anchor)
    try:
        return Policy.model_validate(settings)
    except ValidationError:
        return Policy.model_construct(**settings)


def as_version(row: RowMapping) -> PolicyVersion:
    """Return a row as a version of the policy."""
    return PolicyVersion.model_construct(**{**row, "settings": stored_policy(row["settings"])})
