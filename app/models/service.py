"""Models: how to find them, and changes of them. Every change is in the audit log."""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, time
from difflib import get_close_matches
from uuid import UUID

from sqlalchemy import Connection

from app.audit import service as audit
from app.errors import ConflictError, NotFoundError
from app.models import queries as store
from app.models.contestants import ALWAYS, read_contestants, read_unoffered_ids
from app.models.schemas import Alias, FoundModel, ModelChange, NewAlias, NewModel, Publication, Version
from app.naming import aliases
from app.naming.aliases import read_names
from app.naming.look_alikes import LookAlikes, find_look_alikes
from app.naming.names import name_error

_MOST_COMPARED, _ALIKE = 5_000, 0.5  # names that one is compared with; how alike suggestions are, 0 to 1


def list_models(
    conn: Connection, *, limit: int, archived: bool = False, unreleased: bool = True, after: str | None = None
) -> list[FoundModel]:
    """Return models by name, those after a name; archived models only with `archived`."""
    rows = store.list_models(conn, archived=archived, unreleased=unreleased, limit=limit, after=after)
    return [FoundModel.model_validate(dict(row)) for row in rows]


def find_model(conn: Connection, reference: str, *, public: bool = False) -> FoundModel:
    """Return the model with this name; otherwise the model that has it as an alias now.

    `public`: for a reader who may not know of unreleased models.
    Raises NotFoundError.
    """
    number = None
    if name_error(reference) is None:
        names = read_names(conn, [reference])
        number = names.own.get(reference) or names.number(reference, None)
    found = None if number is None else get_model(conn, number)
    if found is None or (public and found.unreleased):
        raise NotFoundError(f"there is no model {reference!r}")
    return found


def get_model(conn: Connection, number: int) -> FoundModel:
    """Return the model with this number, which must exist."""
    return FoundModel.model_validate(dict(store.get_model(conn, number)))


def find_contestant(conn: Connection, reference: str, *, public: bool = False) -> FoundModel:
    """Return the model for which votes by this name count: the model with the name, or the one it was merged into.

    `public`: for a reader who may not know of unreleased models.
    Raises NotFoundError.
    """
    found = find_model(conn, reference, public=public)
    number = read_contestants(conn).of(found.model_id)
    contestant = found if number == found.model_id else get_model(conn, number)
    if public and contestant.unreleased:
        raise NotFoundError(f"there is no model {reference!r}")
    return contestant


def suggest_models(conn: Connection, reference: str) -> list[str]:
    """Return the names of at most three public models that look most like this one."""
    names = {one.name.casefold(): one.name for one in list_models(conn, limit=_MOST_COMPARED, unreleased=False)}
    return [names[one] for one in get_close_matches(reference.casefold(), names, cutoff=_ALIKE)]


def list_merged(conn: Connection, model: FoundModel) -> list[str]:
    """Return the names of the models whose votes count for a model; of a released one only those of released ones."""
    contestants = read_contestants(conn)
    found = [get_model(conn, one) for one in sorted(contestants.merged) if contestants.of(one) == model.model_id]
    return [one.name for one in found if model.unreleased or not one.unreleased]


def list_versions(conn: Connection, model: FoundModel) -> list[Version]:
    """Return when a model changed, in order; of a released one only what is released."""
    return [
        Version(model=model.name, changed_at=at, before=before.name)
        for before, at in _list_former(conn, model.model_id)
        if model.unreleased or not before.unreleased
    ]


def _list_former(conn: Connection, number: int) -> list[tuple[FoundModel, datetime]]:
    """Return what a model was before each time at which it changed."""
    rules = read_contestants(conn).rules.get(number, ())
    return [(get_model(conn, rule.into_id), rule.before) for rule in rules if rule.before < ALWAYS]


def former_name(name: str, at: datetime) -> str:
    """Return how what a model was before a time is named at first."""
    at = at.astimezone(UTC)
    written = f"{at:%Y-%m-%d}" if at.time() == time() else f"{at:%Y-%m-%d %H:%M:%S}"
    return f"{name} (before {written})"


def list_aliases(conn: Connection, model: FoundModel) -> list[Alias]:
    """Return the model's other names, by name and period."""
    return [Alias.model_validate(dict(row)) for row in aliases.list_aliases(conn, model.model_id)]


def add_model(conn: Connection, new: NewModel, *, added_by: str) -> FoundModel:
    """Add a model before any vote names it.

    Raises ConflictError: a model or an alias has the name already, or the organization has as many unreleased models as
    the policy allows.
    """
    store.lock_names(conn)
    if new.unreleased:
        _check_room(conn, new.organization)
    if aliases.overlapping_alias(conn, new.name, None, None):
        raise ConflictError(f"{new.name!r} is an alias of a model")
    number = store.insert_model(conn, new.model_dump())
    if number is None:
        raise ConflictError(f"there is a model {new.name!r} already")
    detail = {"unreleased": True} if new.unreleased else {}
    audit.record(conn, actor=added_by, action="model.add", subject=new.name, detail=detail)
    return get_model(conn, number)


def count_unreleased(conn: Connection) -> Counter[str | None]:
    """Return how many unreleased models that battles show each organization has; None for models of no one."""
    out = read_unoffered_ids(conn)
    return Counter(one for number, one in store.list_unreleased(conn) if number not in out)


def _check_room(conn: Connection, organization: str | None) -> None:
    most = store.read_most_unreleased(conn)
    if most is not None and count_unreleased(conn)[organization] >= most:
        whose = "models of no organization" if organization is None else f"models of {organization!r}"
        raise ConflictError(f"the policy allows {most} unreleased {whose} (max_unreleased): publish or archive one")


def publish_model(conn: Connection, reference: str, publication: Publication, *, published_by: str) -> FoundModel:
    """Let the public know of a model, under its codename or another name; the next refit gives it a rank.

    What the model was before it changed is published too. A published model stays as it is.

    Raises NotFoundError.
    Raises ConflictError: another model or an alias has the new name, or the model is published under another name.
    """
    store.lock_names(conn)
    found = find_model(conn, reference)
    name = publication.name or found.name
    if not found.unreleased:
        if name != found.name:
            raise ConflictError(f"{found.name!r} is published already: rename it")
        return found
    former = _list_former(conn, found.model_id)
    for one in (found, *(one for one, _ in former)):
        store.update_model(conn, one.model_id, {"unreleased": False})
    if name != found.name:
        for one, at in former:
            if one.name != former_name(name, at) and one.name.endswith(former_name("", at)):  # not named by an admin
                _rename(conn, one, former_name(name, at), published_by)
        _rename(conn, found, name, published_by)
    audit.record(conn, actor=published_by, action="model.publish", subject=found.name, detail={"name": name})
    return get_model(conn, found.model_id)


def change_model(conn: Connection, reference: str, change: ModelChange, *, changed_by: str) -> FoundModel:
    """Change a model's fields, its name, or whether leaderboards show it; fields that were not set stay.

    Raises NotFoundError.
    Raises ConflictError: another model or an alias has the new name, or an unreleased model would be one more than the
    policy allows its organization.
    """
    store.lock_names(conn)
    found = find_model(conn, reference)
    values = change.model_dump(exclude_unset=True)
    name, archived, reason = values.pop("name", found.name), values.pop("archived", None), values.pop("reason", None)
    organization, gone = values.get("organization", found.organization), found.archived_at is not None
    stays = archived is False or (archived is None and not gone)
    if found.unreleased and stays and (gone or organization != found.organization):
        _check_room(conn, organization)
    if values:
        store.update_model(conn, found.model_id, values)
    if archived is not None:
        store.set_archived(conn, found.model_id, archived=archived, reason=reason)
    if name != found.name:
        _rename(conn, found, name, changed_by)
    changed = get_model(conn, found.model_id)
    before, after = found.model_dump(mode="json"), changed.model_dump(mode="json")
    changes = {field: [before[field], value] for field, value in after.items() if before[field] != value}
    if changes:
        detail = {"changes": changes}
        audit.record(conn, actor=changed_by, action="model.change", subject=found.name, detail=detail)
    return changed


def _rename(conn: Connection, found: FoundModel, name: str, renamed_by: str) -> None:
    aliases.delete_aliases_named(conn, found.model_id, name)
    if aliases.overlapping_alias(conn, name, None, None):
        raise ConflictError(f"{name!r} is an alias of another model")
    if aliases.overlapping_alias(conn, found.name, None, None):
        raise ConflictError(f"{found.name!r} cannot become an alias: in some period it is another model's alias")
    if not store.update_model(conn, found.model_id, {"name": name}):
        raise ConflictError(f"there is a model {name!r} already")
    aliases.insert_alias(conn, found.name, found.model_id, valid_from=None, valid_until=None, created_by=renamed_by)


def add_alias(conn: Connection, reference: str, new: NewAlias, *, added_by: str) -> Alias:
    """Give a model another name. Votes in its period may use it; votes on record stay.

    Raises NotFoundError.
    Raises ConflictError: the name is a model's own name, or an alias in part of the period.
    """
    store.lock_names(conn)
    found = find_model(conn, reference)
    if new.name in read_names(conn, [new.name]).own:
        raise ConflictError(f"{new.name!r} is the name of a model")
    if aliases.overlapping_alias(conn, new.name, new.valid_from, new.valid_until):
        raise ConflictError(f"{new.name!r} is an alias already in part of this period")
    row = aliases.insert_alias(
        conn, new.name, found.model_id, valid_from=new.valid_from, valid_until=new.valid_until, created_by=added_by
    )
    detail = {"model": found.name, **new.model_dump(mode="json")}
    audit.record(conn, actor=added_by, action="model.alias.add", subject=str(row["id"]), detail=detail)
    return Alias.model_validate(dict(row))


def remove_alias(conn: Connection, reference: str, alias_id: UUID, *, removed_by: str) -> None:
    """Remove a model's alias. The votes that used it stay the model's. Raises NotFoundError."""
    store.lock_names(conn)
    found = find_model(conn, reference)
    if not aliases.delete_alias(conn, found.model_id, alias_id):
        raise NotFoundError(f"model {found.name!r} has no alias {alias_id}")
    audit.record(
        conn, actor=removed_by, action="model.alias.remove", subject=str(alias_id), detail={"model": found.name}
    )


def read_look_alikes(conn: Connection, votes: Mapping[str, int] | None = None) -> list[LookAlikes]:
    """Return the models that look the same, without those that are merged; names on record are kept before new ones.

    `votes`: of names in a file; then only what looks like one of them.
    """
    names, merged = store.read_model_names(conn), read_contestants(conn).merged
    weights = {name: math.inf for number, name in names.items() if number not in merged}
    if votes is None:
        return find_look_alikes(weights)
    known = {*names.values(), *read_names(conn, votes).aliases}
    weights |= {name: float(number) for name, number in votes.items() if name not in known}
    found = find_look_alikes(weights)
    return [one for one in found if not votes.keys().isdisjoint([one.kept, *one.others])]
