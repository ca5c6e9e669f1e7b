from collections.abc import Callable
from uuid import UUID

import pytest
from sqlalchemy import insert

from app.arena.policy import Policy, set_policy
from app.arena.refits import Refit, find_refit, request_refit
from app.arena.runner import RefitRunner
from app.lab.simulate import Role, simulate_votes
from app.store.database import Database
from app.store.ids import new_id
from app.store.tables import annotators, models, votes

OUTCOME_CODES = {1.0: 0, 0.0: 1, 0.5: 2}


@pytest.fixture
def crowd(database: Database) -> None:
    """12 honest annotators and 2 who vote against the truth, 120 votes each on 6 models."""
    _record(database, {"honest": 12, "flip": 2})


@pytest.fixture
def crowd_with_coins(database: Database) -> None:
    """12 honest annotators and 4 who vote at random, 120 votes each on 6 models."""
    _record(database, {"honest": 12, "random": 4})


@pytest.fixture
def refit(database: Database, runner: RefitRunner) -> Callable[..., Refit]:
    """Ask for a refit, run it, and return how it ended."""

    def run(*, accept_exclusions: bool = False) -> Refit:
        with database.begin() as conn:
            refit_id = request_refit(
                conn, trigger="request", requested_by="a test", accept_exclusions=accept_exclusions
            )
        assert runner.run_next(scheduled=False) == refit_id
        return look_up(database, refit_id)

    return run


@pytest.fixture
def change_policy(database: Database) -> Callable[..., None]:
    """Put a policy in force that differs from the default in these settings."""

    def change(**settings: object) -> None:
        with database.begin() as conn:
            set_policy(conn, Policy.model_validate(settings), reason="a test", created_by="a test")

    return change


def look_up(database: Database, refit_id: UUID) -> Refit:
    with database.read() as conn:
        return find_refit(conn, refit_id)


def _record(database: Database, roles: dict[Role, int]) -> None:
    simulated = simulate_votes(5, n_models=6, roles=roles, votes_each=120)
    keys = [f"{role} {i}" for i, role in enumerate(simulated.world.role)]
    with database.begin() as conn:
        people = [{"public_id": new_id(), "key": key} for key in keys]
        conn.execute(insert(annotators), people)
        conn.execute(insert(models), [{"name": f"model {i}"} for i in range(6)])
        rows = zip(simulated.annotator, simulated.model_a, simulated.model_b, simulated.outcome, strict=True)
        conn.execute(
            insert(votes),
            [
                {
                    "id": new_id(),
                    "annotator_id": int(annotator) + 1,
                    "model_a_id": int(model_a) + 1,
                    "model_b_id": int(model_b) + 1,
                    "outcome": OUTCOME_CODES[float(outcome)],
                }
                for annotator, model_a, model_b, outcome in rows
            ],
        )
