"""The evidence for and against one annotator, from that annotator's votes and the newest leaderboard."""

from datetime import UTC, datetime

import numpy as np
from sqlalchemy import Connection

from app.annotators.schemas import FoundAnnotator
from app.annotators.service import list_history, summarise_votes
from app.review.evidence.annotator_votes import AnnotatorVotes, ability_of, chance_of, read_annotator_votes
from app.review.evidence.expectations import PublishedScores, read_scores
from app.review.evidence.figures import compare_models, compare_sides, compare_ties, find_agreement, measure_drift
from app.review.evidence.pace import measure_pace
from app.review.evidence.reasons import RuleUsed, describe_findings, describe_reasons, explain_unflagged
from app.review.evidence.schemas import Case, SurprisingVote
from app.review.evidence.summary import describe_drift, describe_figures, describe_retracted
from app.review.queries import read_evidence, read_times_of_others
from app.snapshots.queries import newest_snapshot
from app.snapshots.service import find_snapshot
from app.votes.rules import WINNERS

MOST_SURPRISING = 10
HISTORY_LENGTH = 20


def make_case(conn: Connection, annotator: FoundAnnotator) -> Case | None:
    """Collect the evidence on an annotator; None before the first snapshot.

    Of votes this reads only the annotator's, by their index.
    """
    newest = newest_snapshot(conn)
    if newest is None:
        return None
    snapshot = find_snapshot(conn, str(newest["id"]))
    scores = read_scores(conn, snapshot.id, snapshot.vote_set)
    votes = read_annotator_votes(conn, annotator, scores)
    findings = describe_findings(read_evidence(conn, snapshot.id, [annotator.annotator_id]).get(annotator.annotator_id))
    history = list_history(conn, annotator, limit=HISTORY_LENGTH)
    agreement, sides, ties = find_agreement(votes), compare_sides(votes), compare_ties(votes)
    pace = measure_pace(
        votes.voted[votes.once], votes.received[votes.once], read_times_of_others(conn, annotator.annotator_id)
    )
    models = compare_models(votes, scores.names)
    drift = measure_drift(votes)
    summary: list[str] = []
    if len(votes.id) == 0:
        summary += describe_retracted(summarise_votes(conn, annotator), has_history=bool(history))
    if ability_of(annotator) is not None:
        rule = RuleUsed.of(newest)
        summary += describe_reasons(annotator, findings, rule)
        summary += filter(None, [explain_unflagged(annotator, findings, rule)])
    summary += describe_figures(agreement, sides, ties, pace, models)
    summary += describe_drift(drift)
    return Case(
        snapshot=snapshot.number,
        summary=summary,
        strength=annotator.reason_strength,
        laboratory=findings,
        ability_used=votes.ability,
        votes_considered=len(votes.once),
        agreement=agreement,
        surprising=_surprising(votes, scores),
        sides=sides,
        ties=ties,
        pace=pace,
        drift=drift,
        models=models,
        history=history,
    )


def _surprising(votes: AnnotatorVotes, scores: PublishedScores) -> list[SurprisingVote]:
    """Return the surprising votes that a typical annotator is least likely to give."""
    scored = np.flatnonzero(votes.scored)
    outcome = votes.outcome[scored]
    own, typical = votes.own.of(outcome), votes.typical.of(outcome)
    found = []
    for i in np.argsort(typical, kind="stable")[:MOST_SURPRISING].tolist():
        vote, chance = int(scored[i]), chance_of(float(own[i]), float(typical[i]))
        if not chance.surprising:
            break
        voted = votes.voted[vote]
        found.append(
            SurprisingVote(
                id=votes.id[vote],
                model_a=scores.names[int(votes.model_a[vote])],
                model_b=scores.names[int(votes.model_b[vote])],
                winner=WINNERS[int(votes.outcome[vote])],
                voted_at=None if np.isnan(voted) else datetime.fromtimestamp(float(voted), UTC),
                chance=chance,
            )
        )
    return found
