"""How an arena is run: what battles showed, what was removed and why, who has how many variants, who may exclude."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

from sqlalchemy import Connection

from app.audit.service import audit_head
from app.battles.exposure.queries import Chosen, count_all, count_by_model
from app.battles.exposure.schemas import BestOfMany, ModelExposure
from app.battles.exposure.service import count_models, find_best_of_many
from app.database.engine import database_time
from app.leaderboard.governance import queries as store
from app.leaderboard.governance.schemas import (
    ArchivedModel,
    AuditHead,
    Governance,
    MergedModel,
    OrganizationVariants,
    RetractedVotes,
    Role,
    ShownModel,
)
from app.models.service import count_unreleased
from app.policy.schemas import Policy
from app.policy.service import current_policy
from app.snapshots.queries import newest_snapshot
from app.snapshots.schemas import SnapshotHead
from app.wording import percent

PERIOD = timedelta(days=30)
_MOST_RETRACTED = 100


def describe_governance(conn: Connection) -> Governance:
    """Return how the arena is run. Battles are those of 30 days up to the newest snapshot, or up to now before it."""
    snapshot, policy = newest_snapshot(conn), current_policy(conn).settings
    until = database_time(conn) if snapshot is None else snapshot["published_at"]
    chosen = Chosen(until - PERIOD, until)
    rows = count_by_model(conn, chosen)
    models, _, _ = count_models(conn, chosen, rows)
    battles, unreleased = count_all(conn, chosen)["offered"], count_unreleased(conn)
    best = {} if snapshot is None else find_best_of_many(conn, snapshot["id"], rows)
    head = audit_head(conn) if snapshot is None else snapshot["diagnostics"].get("audit")
    return Governance(
        snapshot=None if snapshot is None else SnapshotHead.model_validate(dict(snapshot)),
        audit=None if head is None else AuditHead(**head),
        since=chosen.since,
        until=chosen.until,
        battles=battles,
        battle_policy=policy.battle_policy,
        battle_floor=policy.battle_floor,
        models=[_shown(one, battles) for one in models if not one.unreleased and (one.offered or not one.archived)],
        battles_of_unreleased=sum(one.offered for one in models if one.unreleased),
        organizations=list(_organizations(models, unreleased, best)),
        max_unreleased=policy.max_unreleased,
        archived=[ArchivedModel.model_validate(dict(row)) for row in store.list_archived(conn)],
        merged=[MergedModel.model_validate(dict(row)) for row in store.list_merged(conn)],
        retracted=[
            RetractedVotes.model_validate(dict(row)) for row in store.list_retracted(conn, most=_MOST_RETRACTED)
        ],
        roles=_roles(policy),
    )


def _shown(one: ModelExposure, battles: int) -> ShownModel:
    return ShownModel(
        model=one.model,
        organization=one.organization,
        battles=one.offered,
        share=one.offered / battles if battles else 0.0,
        intended=one.intended,
        compared=one.compared,
    )


def _organizations(
    models: Iterable[ModelExposure], unreleased: Counter[str | None], best: Mapping[str, BestOfMany]
) -> Iterable[OrganizationVariants]:
    """Yield the organizations with models in battles, or a best of many, by the number of models and the name."""
    public = Counter(one.organization for one in models if not (one.archived or one.unreleased))
    known = sorted(public | unreleased, key=lambda name: (-(public + unreleased)[name], name is None, name))
    for name in (*known, *(one for one in sorted(best) if one not in known)):
        yield OrganizationVariants(
            organization=name,
            variants=public[name],
            unreleased=unreleased[name],
            best=None if name is None else best.get(name),
        )


def _roles(policy: Policy) -> list[Role]:
    share = f"Excludes annotators, up to {percent(policy.max_excluded_share)} of the votes in a refit without an admin."
    return [
        Role(role="rule", may="Flags annotators, and excludes none." if policy.on_low_ability == "flag" else share),
        Role(role="review", may="Excludes, reinstates and trusts annotators, and retracts votes, each with a reason."),
        Role(role="admin", may="All of this; sets the policy; adds, publishes, merges and archives models."),
    ]
