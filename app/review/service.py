"""The evidence on annotators, appeals and rewards."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from sqlalchemy import Connection

from app.annotators import service as annotators
from app.annotators.schemas import FoundAnnotator
from app.errors import ConflictError
from app.review import queries as store
from app.review.evidence.case import make_case
from app.review.evidence.reasons import (
    RuleUsed,
    describe_findings,
    describe_reasons,
    explain_unflagged,
    strong_findings,
)
from app.review.schemas import AnnotatorDetail, Appeal, Reason, Reward, Rewards
from app.snapshots.queries import newest_snapshot
from app.snapshots.service import find_snapshot
from app.webhooks.events import announce


def list_reasons(conn: Connection, found: Sequence[FoundAnnotator]) -> list[Reason]:
    """Return, for each of these annotators, why the newest refit flags or would flag them; no words where nothing is.

    Outside the rule's reach, with too few votes, there is nothing to say.
    """
    newest = newest_snapshot(conn)
    evidence = {} if newest is None else store.read_evidence(conn, newest["id"], [one.annotator_id for one in found])
    rule = RuleUsed.of(newest)
    reasons = []
    for one in found:
        findings = describe_findings(evidence.get(one.annotator_id))
        not_flagged = explain_unflagged(one, findings, rule)
        suspect = one.rule_standing in ("flagged", "excluded") or bool(strong_findings(findings) or not_flagged)
        reasons.append(
            Reason(
                strength=one.reason_strength,
                rule=findings.rule,
                held=findings.held,
                judged=rule.judged(one),
                words=describe_reasons(one, findings, rule) if suspect and newest is not None else [],
                not_flagged=not_flagged,
                weights=findings.weights,
            )
        )
    return reasons


def find_detail(conn: Connection, reference: str) -> AnnotatorDetail:
    """Return an annotator, by id or by key, with decisions, open appeals, a summary of the votes, and the evidence.

    Raises NotFoundError.
    """
    found = annotators.find_annotator(conn, reference)
    case = make_case(conn, found)
    return AnnotatorDetail(
        **found.model_dump(),
        decisions=annotators.list_decisions(conn, found),
        appeals=list_appeals(conn, limit=MAX_OPEN, annotator=str(found.id)),
        votes_summary=annotators.summarise_votes(conn, found),
        agreement=case and case.agreement,
        evidence=case,
    )


def rule_used(conn: Connection) -> RuleUsed:
    """Return the rule on abilities of the newest snapshot."""
    return RuleUsed.of(newest_snapshot(conn))


MAX_OPEN = 5


def submit_appeal(conn: Connection, reference: str, note: str, *, submitted_by: str) -> Appeal:
    """Record an annotator's note for the reviewers. The next decision on the annotator answers it.

    Raises NotFoundError: there is no such annotator.
    Raises ConflictError: five appeals of this annotator already wait.
    """
    found = annotators.lock_annotator(conn, reference)
    if store.count_open(conn, found.annotator_id) >= MAX_OPEN:
        raise ConflictError(f"{MAX_OPEN} appeals of this annotator already wait for a decision")
    appeal = Appeal.model_validate(dict(store.insert_appeal(conn, found.annotator_id, note, submitted_by)))
    announce(conn, "appeal.submitted", {"id": str(found.id), "appeal": str(appeal.id)})  # without key and note
    return appeal


def list_appeals(
    conn: Connection,
    *,
    limit: int,
    only_open: bool = True,
    annotator: str | None = None,
    after: tuple[datetime, UUID] | None = None,
) -> list[Appeal]:
    """Return appeals, the longest waiting first, of all annotators or of one; `after` is (submitted_at, id).

    Raises NotFoundError: there is no such annotator.
    """
    number = None if annotator is None else annotators.find_annotator(conn, annotator).annotator_id
    rows = store.list_appeals(conn, limit=limit, only_open=only_open, annotator_id=number, after=after)
    return [Appeal.model_validate(dict(row)) for row in rows]


CENT = Decimal("0.01")


def split_budget(conn: Connection, budget: Decimal, snapshot: str | None = None) -> Rewards:
    """Split a budget in proportion to max(ability, 0) × counted votes.

    An annotator outside the fit (too few votes, or excluded) or with an ability of 0 or less gets nothing. Amounts are
    rounded down to cents. The cents left over go, one each, to the annotators that lost most by rounding (the largest
    remainder method). So the amounts add up to the budget.

    Raises NotFoundError or NoSnapshotError.
    Raises ConflictError: no annotator has a positive ability, or the snapshot is so old that its annotators were
    deleted.
    """
    found = find_snapshot(conn, snapshot)
    if found.crowd_pruned_at is not None:
        # the few rows that remain would share what all annotators earned
        raise ConflictError(f"the annotators of snapshot {found.number} are not kept: old snapshots drop them")
    earners = store.read_earners(conn, found.id)
    if not earners:
        raise ConflictError(
            f"no annotator of snapshot {found.number} has a positive ability: there is no one to reward"
        )
    # Fractions hold floats exactly: amounts are rounded only to the cent.
    weights = [Fraction(one["ability"]) * one["votes"] for one in earners]
    amounts = split_exactly(int(budget / CENT), weights)
    total = sum(weights)
    rewards = [
        Reward(**one, share=float(weight / total), amount=cents * CENT)
        for one, weight, cents in zip(earners, weights, amounts, strict=True)
    ]
    rewards.sort(key=lambda reward: -reward.amount)
    return Rewards(snapshot=found, budget=budget.quantize(CENT), rewards=rewards)


def split_exactly(whole: int, weights: Sequence[Fraction]) -> list[int]:
    """Split a whole number in proportion to positive weights, into whole numbers that add up to it.

    Each part differs from its exact share by less than one. Of equal remainders the earlier one comes first.
    """
    total = sum(weights)
    exact = [whole * weight / total for weight in weights]
    amounts = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (amounts[i] - exact[i], i))
    for i in by_remainder[: whole - sum(amounts)]:
        amounts[i] += 1
    return amounts
