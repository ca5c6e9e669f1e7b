from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from app.battles.roster import Rosters
from app.database.engine import Database


def change(database: Database, statement: str) -> None:
    with database.begin() as conn:
        conn.execute(text(statement))


def test_the_roster_is_read_again_after_its_time_or_for_a_model_that_it_lacks(database: Database) -> None:
    patient, forgetful = Rosters(database, seconds=3600), Rosters(database, seconds=0)
    assert patient.current().active == ()
    change(database, "INSERT INTO models (name) VALUES ('a'), ('b')")
    assert patient.current().active == (1, 2), "with too few models it is read again at once"
    change(database, "INSERT INTO models (name, archived_at) VALUES ('c', NULL), ('gone', now())")
    assert patient.current().active == (1, 2)
    assert forgetful.current().active == (1, 2, 3)
    assert patient.current({3}).active == (1, 2, 3)
    assert patient.current().archived == {4}


def test_the_tables_of_a_snapshot_are_read_once(
    database: Database, stored_crowd: None, run_refit: Callable[..., Any], store_policy: Callable[..., None]
) -> None:
    rosters = Rosters(database, seconds=0)
    assert (rosters.current().drawn_by, rosters.current().tables) == ("uniform", {})
    store_policy(battle_policy="balanced")
    run_refit()
    first = rosters.current()
    assert (first.drawn_by, list(first.tables)) == ("balanced", [""])
    store_policy(battle_policy="information")
    assert rosters.current().tables is first.tables
    assert rosters.current().drawn_by == "balanced", "until the next refit the old table is in use"
    assert rosters.current().policy.settings.battle_policy == "information"
    run_refit()
    assert rosters.current().drawn_by == "information"
    assert rosters.current().snapshot_id != first.snapshot_id


def test_equal_sets_of_candidates_have_one_number(database: Database) -> None:
    one, other = Rosters(database), Rosters(database)
    numbers = one.set_numbers({(1, 2), (1, 2, 3)})
    assert len(set(numbers.values())) == 2
    assert other.set_numbers({(1, 2, 3)}) == {(1, 2, 3): numbers[1, 2, 3]}
    with database.read() as conn:
        stored = {tuple(ids) for ids in conn.execute(text("SELECT model_ids FROM candidate_sets")).scalars()}
    assert stored == numbers.keys()
