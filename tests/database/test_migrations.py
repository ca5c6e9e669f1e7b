import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.exc import DatabaseError

from app.database.engine import Database, parse_url
from app.database.schema import (
    SchemaBehindError,
    alembic_config,
    downgrade,
    needed_revision,
    require_current,
    upgrade,
)
from app.database.tables import Xid8, metadata, policies
from app.policy.schemas import Policy
from app.policy.service import current_policy
from app.votes.prompts import prompt_key
from tests.fixtures.database import new_database
from tests.fixtures.errors import naming

Older = Callable[[str], AbstractContextManager[str]]


def table_names(database: Database) -> set[str]:
    with database.read() as conn:
        return set(conn.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars())


@pytest.fixture(scope="module")
def older(server_url: str) -> Iterator[Older]:
    """Make a database of an earlier revision. Each revision is migrated to once, and copied."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}

        def copy(revision: str) -> AbstractContextManager[str]:
            if revision not in urls:
                urls[revision] = stack.enter_context(new_database(server_url))
                upgrade(urls[revision], revision)
            return new_database(server_url, str(parse_url(urls[revision]).database))

        yield copy


def test_there_is_one_head() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [needed_revision()]


def test_up_down_up(empty_database_url: str) -> None:
    with Database(empty_database_url) as database:
        upgrade(empty_database_url)
        assert table_names(database) == {*metadata.tables, "alembic_version"}
        downgrade(empty_database_url, "base")
        assert table_names(database) == {"alembic_version"}
        upgrade(empty_database_url)
        require_current(database)


def test_tables_and_migrations_agree(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ischema_names, "xid8", Xid8)
    with database.read() as conn:
        assert compare_metadata(MigrationContext.configure(conn), metadata) == []


def test_two_at_once_take_turns(empty_database_url: str) -> None:
    failures: list[BaseException] = []

    def migrate() -> None:
        try:
            upgrade(empty_database_url)
        except BaseException as error:  # noqa: BLE001  told to the test
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with Database(empty_database_url) as database, database.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM policies")).scalar_one() == 1


def test_the_first_policy_is_the_defaults(database: Database) -> None:
    with database.read() as conn:
        first = current_policy(conn)
    assert (first.version, first.reason, first.created_by) == (1, "defaults", "migration")
    assert first.settings == Policy()


def test_an_empty_database_is_behind(empty_database_url: str) -> None:
    with Database(empty_database_url) as database, pytest.raises(SchemaBehindError) as caught:
        require_current(database)
    needed = needed_revision()
    assert caught.value.detail == f"the schema is empty, this version needs {needed}: run stable-arena migrate"


def test_another_schema_is_not_worked_with(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaBehindError, check=naming("9999")):
        require_current(database)


@pytest.mark.parametrize("table", ["annotators", "models", "api_keys", "imports"])
@pytest.mark.parametrize("how", ["DELETE FROM", "TRUNCATE"])
def test_what_votes_name_cannot_be_deleted(connection: Connection, table: str, how: str) -> None:
    connection.execute(text("INSERT INTO annotators (key, public_id) VALUES ('ann', gen_random_uuid())"))
    connection.execute(text("INSERT INTO models (name) VALUES ('m')"))
    key = "VALUES (gen_random_uuid(), 'k', 'p', '', '{read}')"
    connection.execute(text(f"INSERT INTO api_keys (id, name, prefix, secret_hash, scopes) {key}"))
    job = "VALUES (gen_random_uuid(), 'done', 'f', '', '{}', 'k')"
    connection.execute(text(f"INSERT INTO imports (id, state, file_name, sha256, counts, requested_by) {job}"))
    # The trigger refuses, or before it the foreign keys of other tables.
    with pytest.raises(DatabaseError) as refused:
        connection.execute(text(f"{how} {table}"))
    assert refused.value.orig.sqlstate in ("23001", "0A000")


@pytest.mark.parametrize(("rule", "versions"), [("probability", 3), ("threshold", 2)])
def test_a_policy_in_force_with_the_removed_rule_gets_a_new_version(older: Older, rule: str, versions: int) -> None:
    settings = {"min_votes": 20, "flag_rule": rule, "flag_probability": 0.9}
    with older("0026") as url, Database(url) as database:
        with database.begin() as conn:
            conn.execute(insert(policies).values(settings=settings, reason="a test", created_by="a test"))
        upgrade(url)
        downgrade(url, "0026")
        upgrade(url)
        with database.read() as conn:
            stored = conn.execute(select(policies.c.settings).order_by(policies.c.version)).scalars().all()
    assert len(stored) == versions
    assert stored[1] == settings
    assert rule == "threshold" or stored[2] == {"min_votes": 20, "flag_rule": "evidence"}


@pytest.mark.parametrize("asked", ["Why?", " \t¿Por qué?\n", "為什麼"])
def test_votes_on_hosted_answers_get_the_key_of_their_prompt(older: Older, asked: str) -> None:
    with older("0045") as url, Database(url) as database:
        with database.begin() as conn:
            conn.execute(
                text("INSERT INTO prompts (public_id, text) VALUES (gen_random_uuid(), :asked)"), {"asked": asked}
            )
            conn.execute(text(
                "INSERT INTO battles (id, annotator_id, left_id, right_id, candidate_set_id, drawn_by, propensity,"
                " policy_version, expires_at, prompt_id) SELECT id, 1, 1, 2, 1, 'a test', 1, 1, now(), prompt FROM"
                " (VALUES (gen_random_uuid(), 1), (gen_random_uuid(), NULL)) AS b(id, prompt)"
            ))  # fmt: skip
            conn.execute(text(
                "INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, sealed_battle_id)"
                " SELECT gen_random_uuid(), 1, 1, 2, 0, id FROM battles UNION ALL"
                " SELECT gen_random_uuid(), 1, 1, 2, 0, NULL"
            ))  # fmt: skip
        upgrade(url)
        with database.read() as conn:
            keys = conn.execute(text("SELECT prompt FROM votes ORDER BY prompt NULLS LAST")).scalars().all()
        assert keys == [prompt_key(asked), None, None]
        downgrade(url, "0045")
        upgrade(url)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(1.0, "estimated"), (1000, 0.6), (0.001, 0.05), (0.05, None), (0.6, None), ("estimated", None), (None, None)],
)
def test_a_policy_in_force_with_a_spread_out_of_bounds_gets_a_new_version(
    older: Older, given: float | str | None, kept: float | str | None
) -> None:
    settings = {"min_votes": 20, "ability_cap": 2.0, "prior_sd": given}
    with older("0041") as url, Database(url) as database:
        with database.begin() as conn:
            conn.execute(insert(policies).values(settings=settings, reason="a test", created_by="a test"))
        upgrade(url)
        downgrade(url, "0041")
        upgrade(url)
        with database.read() as conn:
            stored = conn.execute(select(policies.c.settings).order_by(policies.c.version)).scalars().all()
    assert stored[1:] == [settings] + ([] if kept is None else [settings | {"prior_sd": kept}])
