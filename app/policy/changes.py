"""Another policy is put in force."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from app.audit import service as audit
from app.errors import BadInputError, PreconditionFailedError
from app.naming.aliases import read_names
from app.policy import queries as store
from app.policy.schemas import Policy, PolicyVersion
from app.policy.service import as_version, current_policy


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
    Raises BadInputError: the anchor is no model, or one that nothing public names.
    """
    store.lock_policies(conn)
    replaced = current_policy(conn)
    if not may_replace(replaced):
        raise PreconditionFailedError(
            f"version {replaced.version} of the policy is in force", extensions={"version": replaced.version}
        )
    if (wrong := anchor_error(conn, settings)) is not None:
        raise BadInputError.at("/settings/anchor", wrong)
    row = store.add_policy(conn, settings.model_dump(mode="json"), reason, created_by)
    detail = {"reason": reason, "changes": changed_settings(replaced.settings, settings)}
    audit.record(conn, actor=created_by, action="policy.set", subject=str(row["version"]), detail=detail)
    return as_version(row)


def anchor_error(conn: Connection, settings: Policy) -> str | None:
    """Return what is wrong with the anchor's model, or None: it must be one that the public knows."""
    if settings.anchor is None:
        return None
    model = settings.anchor.model
    number = read_names(conn, [model]).number(model, None)
    if number is None:
        return f"must name a model, and there is no {model!r}"
    return f"must name a public model, and {model!r} is unreleased" if store.is_unreleased(conn, number) else None


def changed_settings(before: Policy, after: Policy) -> dict[str, list[Any]]:
    """Return the old and the new value of each setting that differs, as in JSON."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return {name: [old[name], value] for name, value in new.items() if old[name] != value}
