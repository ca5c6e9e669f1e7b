"""The tables of pair weights that a refit publishes."""

from collections.abc import Callable

import numpy as np
import pytest
from sqlalchemy import Connection, func, insert, select, text, update

from app.database.engine import Database
from app.database.tables import models, snapshots, votes
from app.rating.sampling.pair_weights import PairWeights
from app.refits.fit import fit
from app.refits.fit.fit import fit_snapshot
from app.refits.load import load_fit_input
from app.refits.schemas import Refit
from app.snapshots.pair_weights import find_pair_weights

DoRefit = Callable[..., Refit]


def newest(conn: Connection) -> dict[str, PairWeights]:
    return find_pair_weights(
        conn, conn.execute(select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1)).scalar_one()
    )


def test_a_refit_publishes_a_table_of_the_models_that_are_not_archived(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: Callable[..., None]
) -> None:
    store_policy(battle_policy="uniform", battle_floor=0.2)
    with database.begin() as conn:
        conn.execute(update(models).where(models.c.id == 2).values(archived_at=func.now()))
        conn.execute(insert(models), [{"name": "a new one"}])
    run_refit()
    with database.read() as conn:
        table = newest(conn)[""]
        assert fit_snapshot(load_fit_input(conn)).pair_weights[""].weight.tobytes() == table.weight.tobytes()
    assert table.models.tolist() == [1, 3, 4, 5, 6, 7]
    assert np.isnan(table.R).tolist() == [False, False, False, False, False, True]
    share = table.weight.astype(np.float64) / table.weight.sum(dtype=np.float64)
    with_new = np.array([7 in (table.models[i], table.models[j]) for i, j in zip(*np.triu_indices(6, 1), strict=True)])
    np.testing.assert_allclose(share[~with_new], share[0], rtol=2e-2)
    # 0.1 of the battles beside the floor are the new model's alone, of the rest as many as of any model: 5 of 15
    assert share[with_new].sum() == pytest.approx(0.2 / 3 + 0.8 * (0.1 + 0.9 / 3), rel=2e-3)


@pytest.mark.comparisons
def test_a_tag_has_a_table_of_its_own_while_there_is_room(
    database: Database, stored_crowd: None, run_refit: DoRefit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.begin() as conn:
        conn.execute(text("ALTER TABLE votes DISABLE TRIGGER USER"))
        few = votes.c.model_a_id + votes.c.model_b_id < 8
        conn.execute(update(votes).where(few).values(tags=["maths"]))
        conn.execute(text("ALTER TABLE votes ENABLE TRIGGER USER"))
    run_refit()
    with database.read() as conn:
        tables, fit_input = newest(conn), load_fit_input(conn)
    assert tables.keys() == {"", "maths"}
    assert tables["maths"].weight.tolist() != tables[""].weight.tolist()
    monkeypatch.setattr(fit, "MOST_PAIRS", 29)  # two tables of 6 models have 30
    assert fit_snapshot(fit_input).pair_weights.keys() == {""}
