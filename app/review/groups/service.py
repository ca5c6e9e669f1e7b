"""Decisions on several annotators at once: chosen ones, or a group that pushes, or buries, the same model."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.annotators import service as annotators
from app.annotators.queries import list_group, lock_annotators
from app.annotators.schemas import Action
from app.database.ids import new_id
from app.errors import ConflictError, NotFoundError
from app.rating.settings import EVEN_ODDS
from app.review.groups import queries as store
from app.review.groups.schemas import Group, Member, Taken, Test
from app.review.service import rule_used


class GroupChangedError(ConflictError):
    """A group of annotators is not as it was when the caller looked at it."""

    code = "group-changed"
    title = "The group has changed"


def list_groups(conn: Connection) -> list[Group]:
    """Return the groups of two or more annotators with an open flag, the largest first."""
    rows = store.list_members(conn, rule_used(conn).bar)
    found = [_group(list(members)) for _, members in groupby(rows, itemgetter("test", "model"))]
    return sorted(found, key=lambda group: (-len(group.annotators), -group.votes))


def find_group(conn: Connection, test: Test, model: str) -> Group:
    """Return a group. Raises NotFoundError."""
    return _group(_members(conn, test, model))


def decide_group(
    conn: Connection,
    test: Test,
    model: str,
    action: Action,
    *,
    reason: str,
    decided_by: str,
    seen: Sequence[UUID] | None = None,
) -> tuple[UUID, Taken]:
    """Record one decision for each member of a group, under one id; for all of them or for none.

    `seen`: ids of the members that the caller saw; None: those who are in the group now.
    Raises NotFoundError: there is no such group.
    Raises GroupChangedError: the members are others than those that were seen.
    Raises ConflictError: a member has no decision to withdraw.
    """
    before = [one["annotator_id"] for one in _members(conn, test, model)]
    lock_annotators(conn, before)
    members = store.list_members(
        conn, rule_used(conn).bar, test=test, model=model
    )  # decisions may have come in before the lock
    if {one["annotator_id"] for one in members} != set(before):
        raise GroupChangedError("a decision on a member was taken at the same time: look at the group again")
    if seen is not None and {one["id"] for one in members} != set(seen):
        raise GroupChangedError("the group has other members than those that were seen: look at it again")
    return decide_all(conn, [one["id"] for one in members], action, reason=reason, decided_by=decided_by)


def decide_all(
    conn: Connection, chosen: Sequence[UUID], action: Action, *, reason: str, decided_by: str
) -> tuple[UUID, Taken]:
    """Record one decision for each of these annotators, under one id; for all of them or for none.

    Raises NotFoundError.
    Raises ConflictError: one has no flag to dismiss, or no decision to withdraw.
    """
    found = [annotators.find_annotator(conn, str(one)) for one in dict.fromkeys(chosen)]
    lock_annotators(conn, [one.annotator_id for one in found])
    group_id = new_id()
    taken = [
        annotators.decide(conn, str(one.id), action, reason=reason, decided_by=decided_by, group_id=group_id)
        for one in found
    ]
    return group_id, taken


def undo_group(conn: Connection, group_id: UUID, *, decided_by: str) -> Taken:
    """Take back the decisions that were taken on a group at once, all of them or none.

    Raises NotFoundError: no decisions have this id.
    Raises GroupChangedError: another decision was taken on a member since.
    """
    rows = list_group(conn, group_id)
    if not rows:
        raise NotFoundError("no decisions on a group have this id")
    lock_annotators(conn, [one["annotator_id"] for one in rows])
    try:
        return [annotators.undo_decision(conn, str(one["public_id"]), one["id"], decided_by=decided_by) for one in rows]
    except ConflictError as error:
        raise GroupChangedError("another decision was taken on a member since: look at each annotator") from error


def _members(conn: Connection, test: Test, model: str) -> Sequence[RowMapping]:
    found = store.list_members(conn, rule_used(conn).bar, test=test, model=model)
    if not found:
        raise NotFoundError("no two annotators with an open flag are in this group")
    return found


def _group(rows: Sequence[RowMapping]) -> Group:
    members = [Member(**row, odds=10.0 ** row["log10_ratio"] / EVEN_ODDS) for row in rows]
    votes = sum(one.votes for one in members)
    return Group(test=rows[0]["test"], model=rows[0]["model"], annotators=members, votes=votes)
