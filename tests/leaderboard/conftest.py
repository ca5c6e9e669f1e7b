"""Snapshots as a refit would publish them, written by hand: no fit, every number known."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import insert, text

from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import models, snapshot_matchups, snapshot_models

Publish = Callable[..., int]

_REFIT = """
    INSERT INTO refits (id, state, trigger, requested_by, finished_at)
    VALUES (:id, 'done', 'request', 'a test', clock_timestamp())
"""
_SNAPSHOT = """
    INSERT INTO snapshots (id, refit_id, policy_version, settings, diagnostics, votes_read, votes_used, vote_set,
        votes_hash, code_version)
    VALUES (:id, :refit, 1, '{"min_votes": 50}', CAST(:diagnostics AS jsonb), 300, 200, pg_current_snapshot()::text,
        'hash', '1')
    RETURNING number
"""


@pytest.fixture
def publish(database: Database) -> Publish:
    """Publish a snapshot with these boards, (method, tag) → model → what differs from the usual row; return its number.

    `matchups` are (model_a, model_b, wins_a, ties, wins_b, predicted, lower, upper), by the order of models' numbers;
    `diagnostics` are the snapshot's.
    """
    numbers: dict[str, int] = {}

    def number_of(conn: Any, name: str) -> int:
        if name not in numbers:
            numbers[name] = conn.execute(insert(models).values(name=name).returning(models.c.id)).scalar_one()
        return numbers[name]

    def send(
        boards: Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]],
        *,
        matchups: Sequence[tuple[Any, ...]] = (),
        diagnostics: Mapping[str, Any] | None = None,
    ) -> int:
        snapshot, refit = new_id(), new_id()
        with database.begin() as conn:
            conn.execute(text(_REFIT), {"id": refit})
            values = {"id": snapshot, "refit": refit, "diagnostics": json.dumps(diagnostics or {})}
            number: int = conn.execute(text(_SNAPSHOT), values).scalar_one()
            rows = [
                {**_row(snapshot, place, given), "method": method, "tag": tag, "model_id": number_of(conn, model)}
                for (method, tag), board in boards.items()
                for place, (model, given) in enumerate(board.items(), 1)
            ]
            conn.execute(insert(snapshot_models), rows)
            pairs = [_pair(snapshot, [number_of(conn, name) for name in row[:2]], row[2:]) for row in matchups]
            if pairs:
                conn.execute(insert(snapshot_matchups), pairs)
        return number

    return send


def _row(snapshot: UUID, rank: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """100 points from rank to rank, all identified, 60 votes each."""
    score = 1200.0 - 100 * rank
    figures = {"score": score, "se": 10.0, "lower": score - 20, "upper": score + 20, "rank": rank}
    spread = {"best_rank": rank, "worst_rank": rank, "votes": 60, "wins": 30, "ties": 15, "losses": 15}
    usual = {**figures, **spread, "component": 0, "identified": True}
    return {"snapshot_id": snapshot, **usual, **given}


def _pair(snapshot: UUID, pair: list[int], figures: Sequence[Any]) -> dict[str, Any]:
    names = ("wins_a", "ties", "wins_b", "predicted", "lower", "upper")
    return {
        "snapshot_id": snapshot,
        "model_a_id": pair[0],
        "model_b_id": pair[1],
        **dict(zip(names, figures, strict=True)),
    }


@pytest.fixture
def three(publish: Publish) -> int:
    """Three models under every method and one tag, the lower two as good as tied, and their matchups."""
    ant, bee, cat = "ant", "bee", "cat"
    same: dict[str, dict[str, Any]] = {ant: {}, bee: {}, cat: {}}
    elo = {name: dict.fromkeys(("lower", "upper", "best_rank", "worst_rank")) for name in same}
    return publish(
        {
            ("am-elo", ""): same,
            ("m-elo", ""): {bee: {"score": 1110.0}, ant: {"score": 1090.0}, cat: {}},
            ("m-elo-all", ""): same,
            ("elo", ""): elo,
            ("am-elo", "code"): {cat: {"votes": 9}, ant: {"votes": 8}},
        },
        matchups=[
            (ant, bee, 20, 10, 10, 0.64, 0.6, 0.7),
            (ant, cat, 18, 4, 2, 0.76, 0.7, 0.8),
            (bee, cat, 0, 0, 0, 0.64, 0.5, 0.7),
        ],
        diagnostics={
            "fragility": [
                {"above": ant, "below": bee, "gap": 100.0, "votes": 40, "annotators": 3, "tied": False},
                {"above": bee, "below": cat, "gap": 100.0, "votes": 3, "annotators": None, "tied": True},
            ]
        },
    )
