from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import DBAPIError

from app import __version__
from app.annotators.erasure import clear_metadata_of_erased
from app.annotators.standings import insert_snapshot_annotators, list_standing_changes, update_standings
from app.audit.service import audit_head
from app.database.errors import DatabaseUnreachableError, first_line
from app.models.queries import read_model_names
from app.rating.method import METHOD
from app.refits.fit.interface import FitInput, FitOutput, Ids
from app.refits.fit.parts import Parts, log_left_out
from app.refits.guard import find_alarms
from app.refits.queries import count_by_door
from app.refits.rows import (
    annotator_columns,
    count_rules,
    dimension_rows,
    leaderboard_rows,
    matchup_columns,
    style_account,
    weight_account,
)
from app.snapshots.confidence import insert_confidence
from app.snapshots.pair_weights import insert_pair_weights
from app.snapshots.queries import insert_leaderboards, insert_matchups, insert_snapshot
from app.webhooks import events

T = TypeVar("T")


def write_snapshot(
    conn: Connection, refit_id: UUID, fit_input: FitInput, output: FitOutput, seconds: Mapping[str, float]
) -> UUID:
    """Add a snapshot with its leaderboards, matchups and annotators, and the messages about it; return its id.

    This only adds rows, so no other transaction waits for it. If the process freezes meanwhile, another worker can
    take over and publish. `apply_standings` follows under the lease.
    """
    names = model_names(conn, fit_input.model_ids)
    rankings = count_whole_votes(fit_input, output)
    votes_read = fit_input.votes_read if rankings is None else rankings["votes_read"]
    rules, parts = count_rules(output.annotators), Parts()
    found = _compute(conn, parts, "alarms about rules", lambda: find_alarms(conn, rules, votes_read))
    alarms = [asdict(alarm) for alarm in found or ()]
    doors = _compute(conn, parts, "votes by door", lambda: count_by_door(conn, fit_input.vote_set))
    log_left_out(parts.notices)
    notices = (*output.diagnostics.warnings, *output.notices, *parts.notices)
    values: dict[str, Any] = {
        "refit_id": refit_id,
        "policy_version": fit_input.policy_version,
        "settings": stored_settings(fit_input),
        "diagnostics": {
            **asdict(output.diagnostics),
            "warnings": [notice.named(names) for notice in notices],
            "seconds": dict(seconds),
            "votes": account_votes(fit_input, output),
            "weights": weight_account(output),
            "rankings": rankings,
            "rules": rules,
            "alarms": alarms,
            **dict.fromkeys(("fragility", "fragility_of_best")),  # measured later, see `app.refits.fragility`
            "verdicts": output.verdicts,
            "calibration": [one._asdict() for one in output.calibration],
            **style_account(output),
            **({} if output.sharpened is None else {"sharpened": output.sharpened}),
            "categories": dimension_rows(output, names, without=fit_input.settings.unranked),
            "leaderboard_of": fit_input.whose,
            "doors": doors,
            "audit": audit_head(conn),
            "method_version": METHOD,
        },
        "held": fit_input.annotator_ids[output.annotators.held].tolist(),
        "judges": fit_input.annotator_ids[: len(fit_input.judges)][fit_input.judges].tolist(),
        "unreleased": fit_input.unreleased.tolist(),
        "votes_read": fit_input.votes_read,
        "votes_used": round(output.votes_used),
        "votes_sealed": count_sealed(fit_input, output),
        "vote_set": fit_input.vote_set,
        "votes_hash": output.votes_hash,
        "code_version": __version__,
    }
    snapshot = insert_snapshot(conn, values)
    annotators = annotator_columns(fit_input, output, names)
    _announce(conn, snapshot, values, alarms, annotators)
    insert_leaderboards(conn, snapshot["id"], leaderboard_rows(output, fit_input.model_ids))
    insert_confidence(conn, snapshot["id"], output.confidence, fit_input.model_ids)
    if output.matchups is not None:
        insert_matchups(conn, snapshot["id"], matchup_columns(output.matchups, fit_input.model_ids))
    insert_pair_weights(conn, snapshot["id"], output.pair_weights)
    insert_snapshot_annotators(conn, snapshot["id"], annotators)
    return UUID(str(snapshot["id"]))


def stored_settings(fit_input: FitInput) -> dict[str, Any]:
    """Return the settings of the fit as all may read them: the anchor by its name, no word of unreleased models."""
    settings, anchor = asdict(fit_input.settings), fit_input.policy.anchor
    del settings["unranked"]
    return settings | {"anchor": anchor and anchor.model_dump()}


def apply_standings(conn: Connection, snapshot_id: UUID) -> None:
    """Give the annotators the standings of a snapshot just written.

    The transaction holds the refit lease from here to its commit. A worker that would take over waits until then, at
    most for the rest of the lease. Every statement is short to send: a process that freezes does so between two
    statements, and the server ends its transaction.
    """
    update_standings(conn, snapshot_id)
    # Votes that another replica recorded under a key just erased are cleared here: every snapshot passes here.
    clear_metadata_of_erased(conn)


def account_votes(fit_input: FitInput, output: FitOutput) -> dict[str, int]:
    """Return how many of the votes read count, and how many do not, by reason. The reasons add up to `read`.

    pending: of annotators with δ votes or fewer. excluded: of annotators excluded by the rule or a decision. of_others:
    of judges on a leaderboard of people, or of people on one of judges.
    retracted. unsealed: left out because the policy counts sealed votes alone. over_quota: beyond the policy's votes
    per day. same_model: between two names of one model.
    """
    used, votes = round(output.votes_used), np.bincount(fit_input.annotator, minlength=len(fit_input.annotator_ids))
    few = (
        output.annotators.votes <= fit_input.settings.min_votes
    )  # a ranking is one vote here, and its pairs in `votes`
    pending = int(votes[few & ~fit_input.keep_never].sum())
    of_others = int(votes[fit_input.keep_never & ~fit_input.left_out("all")].sum())
    return {
        "read": fit_input.votes_read,
        "used": used,
        "pending": pending,
        "excluded": len(fit_input.outcome) - used - pending - of_others,
        **({"of_others": of_others} if fit_input.mixed else {}),
        "retracted": fit_input.retracted,
        "unsealed": fit_input.unsealed,
        "over_quota": fit_input.over_quota,
        "same_model": fit_input.same_model,
    }


def count_whole_votes(fit_input: FitInput, output: FitOutput) -> dict[str, int] | None:
    """Return the votes read and the votes that count, a ranking as one; None without rankings: pairs are votes then.

    What the policy leaves out before the fit, such as votes over the quota, is read as pairs.
    """
    votes = fit_input.votes_by_annotator
    if votes is None:
        return None
    counted = np.isfinite(output.annotators.ability)
    left_out = fit_input.votes_read - len(fit_input.outcome)
    return {"votes_read": round(float(votes.sum())) + left_out, "votes_used": round(float(votes[counted].sum()))}


def count_sealed(fit_input: FitInput, output: FitOutput) -> int:
    """Return how many of the votes that count are sealed."""
    counted = np.isfinite(output.annotators.ability)  # annotators outside the fit have a shadow ability at most
    return int(fit_input.sealed[counted].sum())


def model_names(conn: Connection, model_ids: Ids) -> list[str]:
    """Return the models' names in the order of their ids in a fit's input."""
    names = read_model_names(conn)
    return [names[model_id] for model_id in model_ids.tolist()]


def _compute(conn: Connection, parts: Parts, part: str, work: Callable[[], T]) -> T | None:
    """Compute a part by statements of this transaction, which goes on if they fail."""

    def within() -> T:
        try:
            with conn.begin_nested():
                return work()
        except DBAPIError as error:
            if conn.invalidated:
                raise DatabaseUnreachableError(first_line(error.orig)) from error
            raise

    return parts.compute(part, within)


def _announce(
    conn: Connection,
    snapshot: RowMapping,
    values: Mapping[str, Any],
    alarms: Sequence[Mapping[str, Any]],
    annotators: Mapping[str, list[Any]],
) -> None:
    named = {"snapshot": str(snapshot["id"]), "number": snapshot["number"]}
    if alarms:
        events.announce(conn, "rule.jumped", {**named, "rules": alarms})
    if events.wants_standings(conn):
        events.announce_standings(conn, snapshot["id"], list_standing_changes(conn, annotators))
    shown = {name: values[name] for name in ("policy_version", "votes_read", "votes_used", "votes_hash")}
    published = snapshot["published_at"].isoformat()
    events.announce(conn, "snapshot.published", {**named, "published_at": published, **shown})
