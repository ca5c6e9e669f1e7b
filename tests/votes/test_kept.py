"""The votes kept for the next refit: read with them or without, votes are the same, whatever happened meanwhile."""

import resource
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from sqlalchemy import Connection, func, insert, select, text, update
from structlog.testing import capture_logs

from app.annotators.erasure import erase_annotator
from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import (
    annotators,
    model_merges,
    models,
    retracted_votes,
    retractions,
    votes,
    withdrawn_retractions,
)
from app.policy.schemas import Policy
from app.refits.fit.interface import FitInput
from app.refits.load import load_fit_input
from app.refits.runner import RefitRunner
from app.refits.service import find_refit, request_refit
from app.snapshots.service import find_snapshot
from app.votes import kept as kept_votes
from app.votes.kept import KeptVotes, read_list, write_list
from app.votes.rules import pairs_of

MODELS, PEOPLE = 5, 4
IMPORTS = [UUID(int=1), UUID(int=2)]

_SNAPSHOT = text(
    """
    WITH refit AS (
        INSERT INTO refits (id, state, trigger, requested_by) VALUES (gen_random_uuid(), 'done', 'command', 'a test')
        RETURNING id
    )
    INSERT INTO snapshots (id, refit_id, policy_version, settings, diagnostics, votes_read, votes_used, vote_set,
        votes_hash, code_version)
    SELECT gen_random_uuid(), id, 1, '{}', '{}', 1, 1, :vote_set, '', '1' FROM refit RETURNING id
    """
)

VOTES = st.fixed_dictionaries(
    {
        "annotator_id": st.integers(1, PEOPLE),
        "pair": st.permutations(range(1, MODELS + 1)).map(lambda order: order[:2]),
        "outcome": st.integers(0, 3),
        "tags": st.lists(st.sampled_from(["a", "b", "language=en", "criterion=x"]), unique=True),
        "sealed": st.booleans(),
        "import_id": st.sampled_from([None, *IMPORTS]),
        "voted_at": st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-02T23:59:59Z"]),
        "features": st.sampled_from([None, {"length": [3, 4.5]}, {"length": [1, 2], "bold": [0, 1]}]),
        "prompt": st.sampled_from([None, -(2**63), 7]),
        "ranking": st.sampled_from([None, None, None, [[3], [1, 2]], [[4], [2], [5], [1]]]),
        "metadata": st.sampled_from([None, {"question": "q1"}, {"question": "q2"}]),
    }
)
POLICIES = st.builds(
    Policy,
    max_votes_per_day=st.sampled_from([None, 1, 3]),
    sealed_only=st.booleans(),
    max_tag_boards=st.integers(0, 3),
    style_features=st.sampled_from([(), ("length",), ("side", "bold", "length")]),
    dimensions=st.sampled_from([{}, {"language": ["fr", "en"]}]),
)


def add_names(conn: Connection) -> None:
    conn.execute(
        insert(annotators),
        [{"id": i + 1, "public_id": new_id(), "key": f"k{i}"} for i in range(PEOPLE)],
    )
    conn.execute(insert(models), [{"id": i + 1, "name": f"m{i}"} for i in range(MODELS)])


def add_vote(conn: Connection, vote: dict[str, Any]) -> None:
    model_a, model_b = vote["pair"]
    rest = {
        name: vote[name]
        for name in ("annotator_id", "outcome", "tags", "import_id", "voted_at", "features", "metadata")
    }
    if ranking := vote["ranking"]:
        (model_a, model_b, rest["outcome"]), rest["ranking"] = pairs_of(ranking)[0], ranking
    values = {"id": new_id(), "model_a_id": model_a, "model_b_id": model_b, **rest}
    conn.execute(insert(votes).values(sealed_battle_id=new_id() if vote["sealed"] else None, **values))


def plain_vote(**changed: Any) -> dict[str, Any]:
    return {
        "annotator_id": 1, "pair": (1, 2), "outcome": 0, "tags": [], "sealed": False, "import_id": None,
        "voted_at": None, "features": None, "ranking": None, "metadata": None, **changed,
    }  # fmt: skip


def retract(conn: Connection, condition: Any) -> UUID:
    retraction_id = new_id()
    values = {"target": "vote", "target_id": "x", "reason": "a test", "retracted_by": "a test", "votes": 0}
    conn.execute(insert(retractions).values(id=retraction_id, **values))
    chosen = select(votes.c.id, func.cast(str(retraction_id), retracted_votes.c.retraction_id.type)).where(condition)
    conn.execute(insert(retracted_votes).from_select(["vote_id", "retraction_id"], chosen))
    return retraction_id


def publish(conn: Connection, fit_input: FitInput) -> UUID:
    snapshot_id: UUID = conn.execute(_SNAPSHOT, {"vote_set": fit_input.vote_set}).scalar_one()
    return snapshot_id


def in_order(fit_input: FitInput) -> dict[str, Any]:
    """Everything in a refit's input, the votes in an order that does not depend on how they were read."""
    every_vote = ("annotator", "model_a", "model_b", "outcome", "tag_bits", "share", "battles")
    columns = [column for name in every_vote if (column := getattr(fit_input, name)) is not None]
    order = np.lexsort(columns)
    measures = fit_input.measures
    if measures is not None:
        fit_input = replace(fit_input, measures=np.nan_to_num(measures, nan=-1.0))
        every_vote, columns = (*every_vote, "measures"), [*columns, *fit_input.measures.T]
        order = np.lexsort(columns)
    found = {field.name: getattr(fit_input, field.name) for field in fields(fit_input)}
    found |= {name: None if found[name] is None else found[name][order] for name in every_vote}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


class Arena(RuleBasedStateMachine):
    """Votes, and what may happen to them. Transactions may stay open while refits run."""

    def __init__(self, database: Database, folder: Path) -> None:
        super().__init__()
        self.database, self.kept = database, KeptVotes(folder / secrets.token_hex(4))
        self.open = ExitStack()
        self.late: list[Connection] = []
        self.retractions: list[UUID] = []

    @initialize()
    def begin(self) -> None:
        with self.database.begin() as conn:
            if not conn.execute(select(models.c.id)).first():
                add_names(conn)

    def teardown(self) -> None:
        self.open.close()

    @rule(some=st.lists(VOTES, min_size=1, max_size=4))
    def vote(self, some: list[dict[str, Any]]) -> None:
        with self.database.begin() as conn:
            for vote in some:
                add_vote(conn, vote)

    @precondition(lambda self: len(self.late) < 3)
    @rule(vote=VOTES)
    def begin_late(self, vote: dict[str, Any]) -> None:
        conn = self.open.enter_context(self.database.engine.connect())
        add_vote(conn, vote)
        self.late.append(conn)

    @precondition(lambda self: self.late)
    @rule(data=st.data(), commits=st.booleans())
    def end_late(self, data: st.DataObject, commits: bool) -> None:
        conn = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
        conn.commit() if commits else conn.rollback()

    @rule(annotator=st.integers(1, PEOPLE), outcome=st.integers(0, 3))
    def retract_some(self, annotator: int, outcome: int) -> None:
        with self.database.begin() as conn:
            picked = (votes.c.annotator_id == annotator) & (votes.c.outcome == outcome)
            self.retractions.append(retract(conn, picked))

    @rule(import_id=st.sampled_from(IMPORTS))
    def undo_an_import(self, import_id: UUID) -> None:
        with self.database.begin() as conn:
            self.retractions.append(retract(conn, votes.c.import_id == import_id))

    @precondition(lambda self: self.retractions)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        retraction_id = self.retractions.pop(data.draw(st.integers(0, len(self.retractions) - 1)))
        with self.database.begin() as conn:
            values = {"retraction_id": retraction_id, "reason": "a test", "withdrawn_by": "a test"}
            conn.execute(insert(withdrawn_retractions).values(values))

    @rule(model=st.integers(2, MODELS), into=st.sampled_from([1, None]), before=st.sampled_from([None, "2026-01-02Z"]))
    def merge(self, model: int, into: int | None, before: str | None) -> None:
        with self.database.begin() as conn:
            values = {"model_id": model, "into_id": into, "before": before, "recorded_by": "a test"}
            conn.execute(insert(model_merges).values(values))

    @rule(annotator=st.integers(1, PEOPLE))
    def erase(self, annotator: int) -> None:
        with self.database.begin() as conn:
            public_id = conn.execute(select(annotators.c.public_id).where(annotators.c.id == annotator)).scalar_one()
            erase_annotator(conn, str(public_id), reason="a test", erased_by="a test")

    @rule(annotator=st.integers(1, PEOPLE), kind=st.sampled_from(["human", "judge"]))
    def is_of_a_kind(self, annotator: int, kind: str) -> None:
        with self.database.begin() as conn:
            conn.execute(update(annotators).where(annotators.c.id == annotator).values(kind=kind))

    @rule(policy=POLICIES, publishes=st.booleans())
    def refit(self, policy: Policy, publishes: bool) -> None:
        with self.database.read() as conn:
            naive = load_fit_input(conn, policy)
            quick = load_fit_input(conn, policy, self.kept)
        assert in_order(quick) == in_order(naive)
        if publishes:
            with self.database.begin() as conn:
                snapshot_id = publish(conn, quick)
            self.kept.keep(snapshot_id)


@pytest.mark.parametrize("examples", [5, pytest.param(100, marks=pytest.mark.campaign)])
def test_both_readings_find_the_same_votes(database: Database, tmp_path: Path, examples: int) -> None:
    run_state_machine_as_test(
        lambda: Arena(database, tmp_path),
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def load(database: Database, kept: KeptVotes) -> tuple[FitInput, list[str]]:
    """Read the votes, and return why they were read anew."""
    with capture_logs() as logs, database.read() as conn:
        fit_input = load_fit_input(conn, kept=kept)
    return fit_input, [line["reason"] for line in logs if line["event"] == "votes_read_anew"]


def load_and_keep(database: Database, kept: KeptVotes) -> None:
    fit_input, _ = load(database, kept)
    with database.begin() as conn:
        snapshot_id = publish(conn, fit_input)
    kept.keep(snapshot_id)


@pytest.fixture
def folder(database: Database, tmp_path: Path) -> Path:
    """A folder in which ten votes are kept; an eleventh is new."""
    with database.begin() as conn:
        add_names(conn)
        for number in range(10):
            add_vote(conn, plain_vote(outcome=number % 4))
    load_and_keep(database, KeptVotes(tmp_path))
    with database.begin() as conn:
        add_vote(conn, plain_vote(annotator_id=2))
    return tmp_path


def test_only_new_votes_are_read(database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    really = kept_votes.read_recorded

    def count(*given: Any, **named: Any) -> Any:
        found = really(*given, **named)
        read.append(len(found["outcome"]))
        return found

    monkeypatch.setattr(kept_votes, "read_recorded", count)
    kept = KeptVotes(folder)
    load_and_keep(database, kept)
    load_and_keep(database, kept)
    assert read == [1, 0]


def test_only_the_owner_may_read_the_files(folder: Path) -> None:
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}
    assert not [path for path in folder.iterdir() if b"k0" in path.read_bytes()]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "votes.list").write_text("{"),
        lambda folder: (folder / "votes.list").write_bytes(write_list({})),
        lambda folder: (folder / "votes.list").write_bytes((folder / "votes.list").read_bytes().replace(b"10", b"99")),
        lambda folder: (folder / "outcome.bin").unlink(),
        lambda folder: (folder / "model_a_id.bin").write_bytes(bytes(40)),
        lambda folder: (folder / "annotator_id.bin").write_bytes(bytes(8)),
        lambda folder: [path.unlink() for path in folder.iterdir()],
    ],
)
def test_damaged_files_are_read_anew(database: Database, folder: Path, damage: Any) -> None:
    damage(folder)
    fit_input, reasons = load(database, KeptVotes(folder))
    assert (len(fit_input.outcome), len(reasons)) == (11, 1)
    load_and_keep(database, KeptVotes(folder))
    assert load(database, KeptVotes(folder))[1] == []


@pytest.mark.parametrize(
    "changed",
    [{"place": "another cluster"}, {"format": 0}, {"snapshot": str(UUID(int=7))}, {"vote_set": "1:1:"}],
)
def test_files_of_another_database_are_not_used(database: Database, folder: Path, changed: dict[str, Any]) -> None:
    path = folder / "votes.list"
    path.write_bytes(write_list(read_list(path.read_bytes()) | changed))
    fit_input, reasons = load(database, KeptVotes(folder))
    assert (len(fit_input.outcome), len(reasons)) == (11, 1)


def test_what_a_refit_without_a_snapshot_read_is_read_again(database: Database, folder: Path) -> None:
    for _ in range(2):  # as if the worker had died after it wrote the files
        fit_input, reasons = load(database, KeptVotes(folder))
        assert (len(fit_input.outcome), reasons) == (11, [])


@pytest.fixture
def no_room() -> Iterator[None]:
    """No file may grow beyond the length of some columns, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * 14 * 120, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kept_before", [True, False])
def test_a_refit_without_room_for_the_files_publishes(
    database: Database,
    stored_crowd: None,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
    kept_before: bool,
) -> None:
    runner = RefitRunner(database, lease_seconds=30, kept=KeptVotes(tmp_path), comparisons=False)

    def refit() -> tuple[str, int]:
        with database.begin() as conn:
            refit_id = request_refit(conn, trigger="command", requested_by="a test")
        assert runner.run_next(scheduled=False) == refit_id
        with database.read() as conn:
            return find_refit(conn, refit_id).state, find_snapshot(conn).votes_read

    if kept_before:
        assert refit() == ("done", 14 * 120)
    with database.begin() as conn:
        conn.execute(insert(votes), {"id": new_id(), "annotator_id": 1, "model_a_id": 1, "model_b_id": 2, "outcome": 0})
    before = {path.name for path in tmp_path.iterdir()}
    request.getfixturevalue("no_room")
    assert refit() == ("done", 14 * 120 + 1)
    assert capfd.readouterr().err.count("votes_not_kept") == 1
    assert {path.name for path in tmp_path.iterdir()} == before
    with database.read() as conn:
        assert in_order(load_fit_input(conn, kept=KeptVotes(tmp_path))) == in_order(load_fit_input(conn))


def test_votes_of_a_cluster_that_was_ahead_are_not_kept(database: Database, folder: Path) -> None:
    with database.begin() as conn:
        ahead = (
            "UPDATE votes SET recorded_in = (pg_current_xact_id()::text::bigint + 1000)::text::xid8 WHERE outcome = 3"
        )
        conn.execute(text(ahead))
    (folder / "votes.list").unlink()
    for _ in range(2):
        kept = KeptVotes(folder)
        load_and_keep(database, kept)
        assert not (folder / "votes.list").exists()
        assert len(load(database, kept)[0].outcome) == 11


def test_more_sets_of_tags_than_can_be_listed_are_read_each_time(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_votes, "MOST_TAG_SETS", 3)
    with database.begin() as conn:
        for tag in "abcd":
            add_vote(conn, plain_vote(tags=[tag, "often"]))
    with database.read() as conn:
        naive = load_fit_input(conn)
        quick = load_fit_input(conn, kept=KeptVotes(folder))
    assert in_order(quick) == in_order(naive)
    assert quick.tags[0] == "often"
    assert list(folder.iterdir()) == []
