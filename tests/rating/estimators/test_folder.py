"""A folder of Parquet files, each a part of a round, gives what a round on one table gives."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from distributed import Client

from app.rating import exchange
from app.rating.cluster import fitting_on_cluster
from app.rating.errors import ClusterError, VotesError
from app.rating.estimators.folder import RatedFolder, rate_folder
from app.rating.estimators.tables import read_table
from app.rating.exchange import deal, run_parts, total
from app.rating.executors import Executors, Message, RemoteParts, _held, fitting_on
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import draw_pairs, make_world
from app.rating.verdict.round import rate_indexed
from app.rating.verdict.rows import annotator_rows, model_rows
from tests.fixtures.cluster import start_cluster

SAME, NEAR = 1e-8, 1e-4  # of scores, Elo points, and abilities; of errors, whose sums are of 32 bits
SETTINGS = LoopSettings(min_votes=20)
FEW = 6  # votes of annotators who do not count
WORDS = pl.Series(["model_b", "tie", "model_a"])


def draw_votes() -> pl.DataFrame:
    """Draw votes in the order of the annotators, among them coins, a clique, and copies at both ends of the order.

    One model wins all its votes, so it has no score. Votes lean to the left, and some annotators have few votes.
    """
    generator = np.random.default_rng(4)
    world = make_world(generator, n_models=12, roles={"honest": 150, "random": 8, "equal": 4, "clique": 8})
    size, votes = len(world.ability), 60
    annotator, (a, b) = np.repeat(generator.permutation(size), votes), draw_pairs(generator, 12, size * votes)
    outcome = world.vote(annotator, a, b, generator)
    outcome = np.where((outcome == 0.0) & (generator.random(len(a)) < 0.1), 1.0, outcome)
    outcome = np.where(a == 0, 1.0, np.where(b == 0, 0.0, outcome))
    frame = pl.DataFrame({
        "annotator": pl.Series(np.repeat(np.arange(size), votes)).cast(pl.String).str.zfill(4),
        "model_a": [f"m{model:02}" for model in a], "model_b": [f"m{model:02}" for model in b],
        "winner": WORDS.gather((2.0 * outcome).astype(np.int64)),
    })  # fmt: skip
    copied = frame.filter(pl.col("annotator").is_in(["0050", "0051", "0052"]))
    copies = [copied.with_columns(annotator=pl.lit(name)) for name in ("0000b", "0169b")]
    few = frame.filter(pl.col("annotator") == "0100").head(FEW).with_columns(annotator=pl.lit("0030b"))
    return pl.concat([frame, *copies, few]).sort("annotator", maintain_order=True)


@pytest.fixture(scope="module")
def votes() -> pl.DataFrame:
    return draw_votes()


@pytest.fixture(scope="module")
def folder(votes: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files; the fourth has only annotators with too few votes."""
    folder = tmp_path_factory.mktemp("votes")
    place = votes["annotator"].rank("dense").to_numpy()
    for number, (first, last) in enumerate(((0, 50), (50, 51), (51, 100), (100, 173))):
        some = votes.filter((place > first) & (place <= last))
        some.write_parquet(folder / f"{number + 2 * (number == 3)}.parquet")
    few = votes.filter(pl.col("annotator") == "0030b").with_columns(annotator=pl.lit("0100x"))
    few.write_parquet(folder / "4.parquet")
    return folder


def rate_table(votes: pl.DataFrame, settings: LoopSettings) -> RatedFolder:
    """Rate the votes in one process, without parts."""
    table = read_table(votes)
    rating = rate_indexed(table.votes, table.cells, settings)
    models, annotators = model_rows(rating, table.votes.models), annotator_rows(rating, table.votes.annotators)
    frame = pl.DataFrame(annotators, infer_schema_length=None)
    standings = dict(sorted(frame["standing"].value_counts().iter_rows()))
    return RatedFolder(models, rating.diagnostics, {}, len(votes), int(rating.votes_used), {}, standings, frame)


def read_folder(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(file) for file in sorted(folder.glob("*.parquet"))])


@pytest.fixture(scope="module")
def here(folder: Path) -> RatedFolder:
    return rate_table(read_folder(folder), SETTINGS)


def assert_same(there: RatedFolder, here: RatedFolder) -> None:
    """Check that two ratings agree."""
    for one, other in zip(there.models, here.models, strict=True):
        for name, value in other.items():
            tolerance = NEAR if name in ("se", "lower", "upper") else SAME
            assert one[name] == (pytest.approx(value, abs=tolerance) if isinstance(value, float) else value), name
    assert there.annotators is not None
    assert here.annotators is not None
    assert there.annotators.columns == here.annotators.columns
    for name in here.annotators.columns:
        own, known = there.annotators[name], here.annotators[name]
        if known.dtype.is_float():
            np.testing.assert_allclose(own.cast(pl.Float64), known, rtol=0, atol=SAME, err_msg=name)
        else:
            assert own.cast(known.dtype).to_list() == known.to_list(), name
    assert (there.read, there.used, there.standings) == (here.read, here.used, here.standings)
    mine, theirs = (replace(each.diagnostics, seconds={}, log_likelihood=0.0) for each in (there, here))
    assert mine == replace(theirs, prior_sd=mine.prior_sd, ability_spread=mine.ability_spread)
    assert mine.prior_sd == pytest.approx(theirs.prior_sd, abs=SAME)
    assert there.diagnostics.log_likelihood == pytest.approx(here.diagnostics.log_likelihood, rel=SAME)


def test_parts_need_not_all_have_ties(votes: pl.DataFrame, tmp_path: Path) -> None:
    decided, tie = pl.col("annotator") >= "0080", pl.col("winner") == "tie"
    some = votes.with_columns(winner=pl.when(decided & tie).then(pl.lit("model_a")).otherwise("winner"))
    for name, part in (("0", some.filter(~decided)), ("1", some.filter(decided))):
        part.write_parquet(tmp_path / f"{name}.parquet")
    assert_same(rate_folder(tmp_path, SETTINGS, annotators=True), rate_table(some, SETTINGS))


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, exclude=True), replace(SETTINGS, interval="none", min_model_annotators=3),
        replace(SETTINGS, flag_rule="threshold", min_ability=0.5, exclude=True),
    ],
)  # fmt: skip
def test_parts_find_what_one_process_finds(folder: Path, settings: LoopSettings) -> None:
    here = rate_table(read_folder(folder), settings)
    assert_same(rate_folder(folder, settings, annotators=True), here)
    assert_telling(here)


def assert_telling(here: RatedFolder) -> None:
    assert {"flagged", "excluded"} & set(here.standings)
    assert any(notice.code == "copies" for notice in here.diagnostics.warnings)
    assert [row["model"] for row in here.models if not row["identified"]] == ["m00"]


def test_many_annotators_are_compared_by_signatures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.rating.model.copies.ALL_PAIRS", 10)
    assert_same(rate_folder(folder, SETTINGS, annotators=True), rate_table(read_folder(folder), SETTINGS))


def test_an_anchor_and_no_annotators(folder: Path) -> None:
    found = rate_folder(folder, SETTINGS, ("m03", 1500.0))
    assert next(row for row in found.models if row["model"] == "m03")["score"] == 1500.0
    assert found.annotators is None
    with pytest.raises(VotesError, match="no model 'm99'"):
        rate_folder(folder, SETTINGS, ("m99", 1500.0))


def test_processes_find_the_same(folder: Path, here: RatedFolder) -> None:
    assert_telling(here)
    context = get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as one, ProcessPoolExecutor(1, mp_context=context) as two,
        fitting_on(Executors([one, two])),
    ):  # fmt: skip
        assert_same(rate_folder(folder, SETTINGS, annotators=True), here)


@pytest.mark.campaign
def test_a_cluster_survives_a_workers_death(folder: Path, here: RatedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = RemoteParts.run, list[int]()
    with start_cluster(2) as mortal, Client(mortal.scheduler_address, set_as_default=False) as client:

        def counted(self: RemoteParts, sent: list[Message]) -> list[object]:
            seen.append(len(sent))
            if len(seen) == 30:  # in the midst of the fit
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            return run(self, sent)

        monkeypatch.setattr(RemoteParts, "run", counted)
        with fitting_on_cluster(mortal.scheduler_address):
            assert_same(rate_folder(folder, SETTINGS, annotators=True), here)
        assert len(seen) > 30
        assert set(seen) == {2}
        assert set(client.run(lambda: len(_held)).values()) == {0}  # the workers have their memory back


def write(folder: Path, **columns: list[str]) -> None:
    names = {"annotator": ["k", "l"], "model_a": ["x", "x"], "model_b": ["y", "y"], "winner": ["tie", "model_a"]}
    for number, own in enumerate((names, {**names, "annotator": ["n", "o"], **columns})):
        pl.DataFrame(own).write_parquet(folder / f"{number}.parquet")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"annotator": ["l", "o"]}, "l: 0.parquet, 1.parquet"),
        ({"winner": ["tie", "no one"]}, "1.parquet: unknown winner"),
        ({"prompt": ["p", "q"]}, "no others, this has annotator, model_a, model_b, winner, prompt"),
        ({"model_b": [1, 2]}, "1.parquet: model_a and model_b differ in kind"),
        ({"model_a": [1, 2], "model_b": [3, 4]}, "text in some files"), ({}, "no vote is left: .* has is 1"),
    ],
)  # fmt: skip
def test_bad_folders_are_refused(tmp_path: Path, columns: dict[str, list[str]], words: str) -> None:
    write(tmp_path, **columns)
    with pytest.raises(VotesError, match=words):
        rate_folder(tmp_path, SETTINGS)


def test_votes_need_annotators(tmp_path: Path) -> None:
    write(tmp_path)
    pl.read_parquet(tmp_path / "1.parquet").drop("annotator").write_parquet(tmp_path / "1.parquet")
    with pytest.raises(VotesError, match=r"1\.parquet: .* this has model_a, model_b, winner"):
        rate_folder(tmp_path, SETTINGS)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(VotesError, match="without a file"):
        rate_folder(tmp_path, SETTINGS)
    (tmp_path / "votes.parquet").write_text("annotator,model_a")
    with pytest.raises(VotesError, match="cannot be read"):
        rate_folder(tmp_path, SETTINGS)


def test_parts_that_go_different_ways_are_an_error() -> None:
    with pytest.raises(ClusterError, match="different ways, to add_up and list"):
        run_parts([lambda: total(1), lambda: deal(list, 1)])
    with pytest.raises(ClusterError, match="different ways, to add_up and the end"):
        run_parts([lambda: total(1), lambda: 1])
    assert run_parts([lambda: total(1), lambda: total(2)]) == [3, 3]
    assert exchange.total(3) == 3
