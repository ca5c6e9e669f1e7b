from collections.abc import Callable, Mapping
from typing import Any, get_args

from pydantic import ValidationError
from sqlalchemy import Connection, RowMapping

from app.audit import service as audit
from app.errors import NotFoundError, PreconditionFailedError
from app.policy import queries as store
from app.policy.schemas import Policy, PolicyVersion
from app.rating.settings import EVIDENCE_TESTS, FlagRule


def current_policy(conn: Connection) -> PolicyVersion:
    """Return the policy in force."""
    return _version(store.newest_policy(conn))


def list_policies(conn: Connection, *, limit: int) -> list[PolicyVersion]:
    """Return the latest versions, the newest first."""
    return [_version(row) for row in store.list_policies(conn, limit=limit)]


def find_policy(conn: Connection, version: int) -> PolicyVersion:
    """Return a version. Raises NotFoundError."""
    row = store.find_policy(conn, version)
    if row is None:
        raise NotFoundError(f"the policy has no version {version}")
    return _version(row)


def policy_before(conn: Connection, version: int) -> PolicyVersion | None:
    """Return the version before this one, None for the first."""
    row = store.policy_before(conn, version)
    return None if row is None else _version(row)


def set_policy(
    conn: Connection,
    settings: Policy,
    *,
    reason: str,
    created_by: str,
    may_replace: Callable[[PolicyVersion], bool] = lambda _: True,
) -> PolicyVersion:
    """Put another policy in force, from the next refit on; earlier versions stay on record.

    Needs a READ COMMITTED transaction.

    Raises PreconditionFailedError: the policy in force is not one that the caller wants to replace.
    """
    store.lock_policies(conn)
    replaced = current_policy(conn)
    if not may_replace(replaced):
        raise PreconditionFailedError(
            f"version {replaced.version} of the policy is in force", extensions={"version": replaced.version}
        )
    row = store.add_policy(conn, settings.model_dump(mode="json"), reason, created_by)
    detail = {"reason": reason, "changes": changed_settings(replaced.settings, settings)}
    audit.record(conn, actor=created_by, action="policy.set", subject=str(row["version"]), detail=detail)
    return _version(row)


def changed_settings(before: Policy, after: Policy) -> dict[str, list[Any]]:
    """Return the old and the new value of each setting that differs, as in JSON."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: [old[name], value] for name, value in new.items() if old[name] != value}


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
    try:
        return Policy.model_validate(settings)
    except ValidationError:
        return Policy.model_construct(**settings)


def _version(row: RowMapping) -> PolicyVersion:
    return PolicyVersion.model_construct(**{**row, "settings": stored_policy(row["settings"])})
