"""The report on exposure: battles offered and ended, against what the policy intended."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, RowMapping

from app.battles.exposure import queries as store
from app.battles.exposure.alarms import find_alarms
from app.battles.exposure.intended import sum_intended
from app.battles.exposure.queries import Chosen
from app.battles.exposure.schemas import (
    BestOfMany,
    Counts,
    DayExposure,
    Exposure,
    ModelExposure,
    OrganizationExposure,
    PromptExposure,
    TagExposure,
)
from app.database.engine import database_time
from app.errors import BadInputError
from app.rating.verdict.winner import adjust_winner
from app.snapshots.confidence import find_confidence
from app.snapshots.queries import list_placed_models, newest_snapshot
from app.snapshots.service import find_snapshot

USUAL_PERIOD = timedelta(days=1)
LONGEST_PERIOD = timedelta(days=366)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_FEWEST_VARIANTS = 2


def report_exposure(
    conn: Connection,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    snapshot: str | None = None,
    tag: str | None = None,
) -> Exposure:
    """Report on the battles of a period, by default of the last day.

    `snapshot`: id or number; only battles drawn from its tables, by default from its publication on.
    Raises NotFoundError: there is no such snapshot.
    Raises BadInputError: the period is empty or longer than a year.
    """
    found = None if snapshot is None else find_snapshot(conn, snapshot)
    until = until or database_time(conn) + timedelta(microseconds=1)  # battles drawn by now are in the period
    if until < EARLIEST:
        raise BadInputError.at("/until", f"must be after {EARLIEST:%Y}")
    since = since or (until - USUAL_PERIOD if found is None else max(found.published_at, until - LONGEST_PERIOD))
    if not timedelta(0) < until - since <= LONGEST_PERIOD:
        raise BadInputError.at("/since", "must be before the end of the period, by a year at most")
    chosen = Chosen(since, until, None if found is None else found.id, tag)
    rows = store.count_by_model(conn, chosen)
    models, variance, earlier_battles = count_models(conn, chosen, rows)
    total = Counts.model_validate(dict(store.count_all(conn, chosen)))
    newest = newest_snapshot(conn)
    best = {} if newest is None else find_best_of_many(conn, newest["id"] if found is None else found.id, rows)
    shown = [(model, one) for model, one in zip(models, variance, strict=True) if model.offered or not model.archived]
    return Exposure(
        since=since,
        until=until,
        snapshot=None if found is None else found.number,
        tag=tag,
        total=total,
        models=[model for model, _ in shown],
        organizations=_organizations(models, best),
        tags=[TagExposure.model_validate(dict(row)) for row in store.count_by_tag(conn, chosen)],
        prompts=[PromptExposure.model_validate(dict(row)) for row in store.count_by_prompt(conn, chosen)],
        days=[DayExposure.model_validate(dict(row)) for row in store.count_by_day(conn, chosen)],
        alarms=list(find_alarms([model for model, _ in shown], total, earlier_battles, [one for _, one in shown])),
    )


def count_models(
    conn: Connection, chosen: Chosen, rows: Sequence[RowMapping]
) -> tuple[list[ModelExposure], list[float], int]:
    """Return the exposure of all models, the variance of each by the policy, and the battles of the period before."""
    intended = sum_intended(conn, store.count_draws(conn, chosen))
    now, battles = _candidate_counts(store.count_by_candidates(conn, chosen))
    earlier, earlier_battles = _candidate_counts(store.count_by_candidates(conn, chosen.before))
    models = [
        ModelExposure(
            **row,
            intended=intended.mean.get(row["model_id"], 0.0) if intended.mean else None,
            candidate_share=now[row["model_id"]] / battles if battles else 0.0,
            earlier_candidate_share=earlier[row["model_id"]] / earlier_battles if earlier_battles else None,
        )
        for row in rows
    ]
    return models, [intended.variance.get(row["model_id"], 0.0) for row in rows], earlier_battles


def _candidate_counts(sets: Sequence[RowMapping]) -> tuple[Mapping[int, int], int]:
    """Return in how many battles each model was a candidate, and the number of battles."""
    counts = Counter[int]()
    for row in sets:
        counts.update(dict.fromkeys(row["model_ids"], row["battles"]))
    return counts, sum(row["battles"] for row in sets)


def _organizations(models: Iterable[ModelExposure], best: Mapping[str, BestOfMany]) -> list[OrganizationExposure]:
    of: dict[str, list[ModelExposure]] = defaultdict(list)
    for model in models:
        if model.organization is not None:
            of[model.organization].append(model)
    found = [
        OrganizationExposure(
            organization=organization,
            models=sum(not model.archived for model in theirs),
            best=best.get(organization),
            **{name: sum(getattr(model, name) for model in theirs) for name in Counts.model_fields},
        )
        for organization, theirs in of.items()
    ]
    return sorted(found, key=lambda one: (-one.offered, one.organization))


def find_best_of_many(conn: Connection, snapshot_id: UUID, models: Sequence[RowMapping]) -> dict[str, BestOfMany]:
    """Return the best model of each organization with several, from the joint errors of the snapshot's scores.

    Unreleased models are not among the scores, but it was chosen among them too.
    """
    known = find_confidence(conn, snapshot_id)
    if known is None:
        return {}
    joint, placed = known.joint, list_placed_models(conn, snapshot_id, with_hidden=True)
    published = {row["model_id"]: row["score"] for row in placed if row["score"] is not None}
    errors = np.sqrt(np.diag(joint.covariance))
    row_of = {row["model_id"]: row for row in models}
    of: dict[str, list[int]] = defaultdict(list)
    for place, model_id in enumerate(joint.models.tolist()):
        organization = row_of[model_id]["organization"]
        if organization is not None and model_id in published:
            of[organization].append(place)
    found, unreleased = {}, Counter(row["organization"] for row in models if row["unreleased"])
    for organization, places in of.items():
        if len(places) + unreleased[organization] < _FEWEST_VARIANTS:
            continue
        winner = adjust_winner(joint.score[places], errors[places], others=unreleased[organization])
        place = places[winner.index]
        score = published[int(joint.models[place])]
        shift = score - float(joint.score[place])  # the leaderboard's base
        found[organization] = BestOfMany(
            model=row_of[int(joint.models[place])]["model"],
            score=score,
            adjusted_score=winner.score + shift,
            adjusted_lower=winner.lower + shift,
            adjusted_upper=winner.upper + shift,
        )
    return found
