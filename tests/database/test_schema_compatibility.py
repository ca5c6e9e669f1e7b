"""The release before goes on working on this schema where that was promised, and refuses where it was not."""

import re
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from app.database import schema
from app.database.engine import Database
from app.database.schema import SchemaBehindError, downgrade, require_current, upgrade

EARLIER = "0003"
RELEASE = "0021"
"""The schema of the release before. Its statements that add votes name keys, which have to stay."""
KEYS = """
SELECT tablename, substring(indexdef FROM 'USING .*') FROM pg_indexes
WHERE schemaname = 'public' AND indexdef LIKE 'CREATE UNIQUE %'
"""
DEMANDS = """
SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f')
UNION SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal
"""
WIDENED = {("retractions", "import"), ("exports", "answers")}
"""Checks that allow a word more than before: what the release before writes, they allow as well."""


BY_CRITERION = (
    "votes",
    "USING btree (criterion_battle_id, annotator_id, criterion, version) WHERE (criterion_battle_id IS NOT NULL)",
)


def rows(url: str, query: str) -> set[tuple[str, str]]:
    with Database(url) as database, database.read() as conn:
        return {(table, said) for table, said in conn.execute(text(query))}


def columns(url: str) -> dict[tuple[str, str], tuple[str, bool, str | None]]:
    """(table, column) → its type, whether it may be empty, and its default."""
    with Database(url) as database, database.read() as conn:
        rows = conn.execute(
            text(
                "SELECT table_name, column_name, data_type, is_nullable = 'YES', column_default"
                " FROM information_schema.columns WHERE table_schema = 'public'"
            )
        )
        return {(table, name): (kind, nullable, default) for table, name, kind, nullable, default in rows}


def test_migrations_only_add(empty_database_url: str) -> None:
    """What the release before writes, it may go on writing; what it reads is still there."""
    upgrade(empty_database_url, EARLIER)
    before, demanded = columns(empty_database_url), rows(empty_database_url, DEMANDS)
    upgrade(empty_database_url)
    after = columns(empty_database_url)
    assert {name: after.get(name) for name in before} == before
    existing = {table for table, _ in before}
    demanding = [
        f"{table}.{name}"
        for (table, name), (_, nullable, default) in after.items()
        if table in existing and (table, name) not in before and not nullable and default is None
    ]
    assert demanding == []
    new = {one for one in rows(empty_database_url, DEMANDS) if one[0] in existing}
    for table, word in WIDENED:
        new = {(name, check.replace(f", '{word}'::text", "") if name == table else check) for name, check in new}
    assert new - demanded == set()


def other_keys(url: str, earlier: str) -> set[tuple[str, str]]:
    """The keys that are not what they were: rows that are one to the earlier code may be several now."""
    upgrade(url, earlier)
    before = rows(url, KEYS)
    upgrade(url)
    existing = {table for table, _ in before}
    return {key for key in before ^ rows(url, KEYS) if key[0] in existing}


def test_where_it_is_promised_rows_are_told_apart_as_before(empty_database_url: str) -> None:
    for earlier in schema.WORKS_WITH:
        assert other_keys(empty_database_url, earlier) == set()
        downgrade(empty_database_url, "base")


def test_why_the_release_before_is_not_promised_anything(empty_database_url: str) -> None:
    assert EARLIER not in schema.WORKS_WITH
    assert other_keys(empty_database_url, EARLIER) == {
        ("snapshot_models", "USING btree (snapshot_id, method, model_id)"),
        ("snapshot_models", "USING btree (snapshot_id, method, tag, model_id)"),
        ("retracted_votes", "USING btree (vote_id)"),
        ("retracted_votes", "USING btree (vote_id, retraction_id, replaced_by) NULLS NOT DISTINCT"),
        BY_CRITERION,  # it writes no votes by criteria
        # It writes no sealed votes.
        ("votes", "USING btree (sealed_battle_id, version) WHERE (sealed_battle_id IS NOT NULL)"),
    }


def test_keys_of_the_release_before_stay(empty_database_url: str) -> None:
    pair = "annotator_id, LEAST(left_id, right_id), GREATEST(left_id, right_id)"
    assert other_keys(empty_database_url, RELEASE) == {
        BY_CRITERION,
        ("battles", f"USING btree (prompt_id, {pair}) WHERE (prompt_id IS NOT NULL)"),  # it offers no prompts
        # A worker of either version writes the rows of whole snapshots, without naming a key.
        ("snapshot_confidence", "USING btree (snapshot_id, tag)"),
        ("snapshot_confidence", "USING btree (snapshot_id, tag, component)"),
    }


def test_a_newer_schema_is_worked_with_where_it_says_so(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the release that comes next would leave it, seen by this one."""
    own = schema.needed_revision()
    assert own is not None
    monkeypatch.setattr(schema, "WORKS_WITH", ("0001", own))
    upgrade(empty_database_url)
    with Database(empty_database_url) as database:
        with database.begin() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        require_current(database)
        upgrade(empty_database_url)  # as `serve` does with an embedded database
        with database.begin() as conn:
            conn.execute(text("COMMENT ON TABLE alembic_version IS 'works with: 0001'"))
        with pytest.raises(SchemaBehindError):
            require_current(database)


def test_a_schema_taken_back_promises_nothing(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "WORKS_WITH", (EARLIER,))
    upgrade(empty_database_url)
    downgrade(empty_database_url, EARLIER)
    with Database(empty_database_url) as database, database.read() as conn:
        assert inspect(conn).get_table_comment("alembic_version")["text"] is None


def test_what_is_promised_exists() -> None:
    versions = Path(__file__).parents[2] / "migrations" / "versions"
    known = {re.match(r"\d+", path.name)[0] for path in versions.glob("0*.py")}  # type: ignore[index]
    assert set(schema.WORKS_WITH) <= known - {schema.needed_revision()}
