"""Columns that say how many votes a row stands for, and ranks of 0: they count, or the reader asks."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats.errors import UnreadableFileError
from app.imports.formats.options import ReadOptions
from app.imports.formats.whole import VoteFile, read_vote_file
from tests.fixtures.errors import having

Write = Callable[[str, str | bytes], Path]
ROWS = [
    {"annotator": "k", "model_a": "x", "model_b": "y", "winner": "model_a", "weight": 3},
    {"annotator": "l", "model_a": "y", "model_b": "x", "winner": "tie", "weight": 0.5},
]
UNCLEAR = ["n", "N", "count", "Count", "freq", "votes", "weights", "Weight", "n_votes"]


def weights(file: VoteFile) -> list[float | None]:
    assert file.rejected == 0
    return file.frame["weight"].to_list()


def csv_of(column: str, values: list[str]) -> str:
    return "".join([f"annotator,model_a,model_b,winner,{column}\n", *(f"k,x,y,tie,{value}\n" for value in values)])


def test_a_weight_counts_in_every_kind_of_file(write: Write, tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(tmp_path / "votes.parquet")
    lines = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    files = [
        write("votes.csv", frame.write_csv()), write("votes.tsv", frame.write_csv(separator="\t")),
        write("votes.jsonl", lines), write("votes.json", json.dumps(ROWS)),
        write("votes.csv.gz", gzip.compress(frame.write_csv().encode())), tmp_path / "votes.parquet",
    ]  # fmt: skip
    for path in files:
        file = read_vote_file(path)
        assert weights(file) == [3.0, 0.5], path.name
        assert file.table()["weight"].to_list() == [3.0, 0.5]
        assert len(file.notes) == 1
    others = "annotator,left,right,winner,weight\nk,x,y,left,2\n"
    assert weights(read_vote_file(write("evalica.csv", others))) == [2.0]


@pytest.mark.parametrize("column", UNCLEAR)
def test_a_column_that_may_be_a_weight_is_asked_about(write: Write, column: str) -> None:
    path = write("votes.csv", csv_of(column, ["2", "1"]))
    asked = re.escape(f"--columns weight={column} ") + ".*" + re.escape("--columns weight= ")
    with pytest.raises(BadInputError, match=asked, check=having(code="invalid")):
        read_vote_file(path)
    assert weights(read_vote_file(path, ReadOptions(columns=f"weight={column}"))) == [2.0, 1.0]
    ignored = read_vote_file(path, ReadOptions(columns="weight="))
    assert (weights(ignored), ignored.notes) == ([None, None], [])


def test_a_column_that_has_another_meaning_is_not_asked_about(write: Write) -> None:
    path = write("votes.csv", "annotator,a,b,n\nk,x,y,left\n")
    found = read_vote_file(path, ReadOptions(columns="model_a=a,model_b=b,winner=n"))
    assert weights(found) == [None]
    both = write("both.csv", "annotator,model_a,model_b,winner,weight,n\nk,x,y,tie,4,9\n")
    assert weights(read_vote_file(both)) == [4.0]
    with pytest.raises(BadInputError, match="no column 'z'"):
        read_vote_file(both, ReadOptions(columns="weight=z"))


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "", "two", "1e999"])
def test_a_weight_is_a_positive_number(write: Write, value: str) -> None:
    file = read_vote_file(write("votes.csv", csv_of("weight", ["1", value])))
    assert (file.rejected, [fault.pointer for fault in file.faults]) == (1, ["line 3, weight"])


def test_what_is_one_vote_has_no_weight(write: Write) -> None:
    judged = read_vote_file(write("votes.csv", csv_of("weight", ["1", "2"])), ReadOptions(judged=True))
    assert [fault.pointer for fault in judged.faults] == ["line 3, weight"]
    ranking = {"annotator": "k", "ranking": [["x"], ["y"]]}
    lines = "".join(f"{json.dumps({**ranking, 'weight': weight})}\n" for weight in (1, 2, 0.5))
    path = write("r.jsonl", lines)
    assert [fault.pointer for fault in read_vote_file(path).faults] == ["line 3, weight"]
    on_record = read_vote_file(path, ReadOptions(keep_features=True))
    assert [fault.pointer for fault in on_record.faults] == ["line 2, weight", "line 3, weight"]
    grades = "item,annotator,model,rating,weight\n1,k,x,4,2\n1,k,y,3,2\n"
    with pytest.raises(BadInputError, match="a grade is no vote"):
        read_vote_file(write("grades.csv", grades))
    assert read_vote_file(write("grades.csv", grades), ReadOptions(columns="weight=")).frame.height == 1


def ranks(write: Write, *groups: str, zero_rank: object = None) -> list[list[list[str]]]:
    rows = [
        f"{item},k,{model},{rank}"
        for item, group in enumerate(groups)
        for model, rank in zip("abc", group.split(), strict=False)
    ]
    path = write("ranks.csv", "\n".join(["item,annotator,model,rank", *rows]))
    found = read_vote_file(path, ReadOptions(zero_rank=zero_rank))  # type: ignore[arg-type]
    return [json.loads(text) for text in found.records["ranked_names"]]


def test_ranks_below_1_beside_ranks_from_1_are_asked_about(write: Write) -> None:
    apart = ("-1 1", "0 3"), ("0 3",), ("0.5 1",)
    for groups in (("0 1 2", "1 2 3"), ("0 1 2",), ("-1 1 2",), ("0.5 1 2",), *apart):
        asked = r"--zero-rank best .* --zero-rank unranked"
        with pytest.raises(BadInputError, match=asked, check=having(code="invalid")):
            ranks(write, *groups)
    assert ranks(write, "0 1 2", zero_rank="best") == [[["a"], ["b"], ["c"]]]
    assert ranks(write, "0 1 2", "1 2 3", zero_rank="unranked") == [[["b"], ["c"]], [["a"], ["b"], ["c"]]]


def test_ranks_from_0_that_cannot_be_else_need_no_word(write: Write) -> None:
    assert ranks(write, "0 1", "1 0") == [[["a"], ["b"]], [["b"], ["a"]]]
    assert ranks(write, "0 0 1") == [[["a", "b"], ["c"]]]
    assert ranks(write, "1 2.5 2.5") == [[["a"], ["b", "c"]]]


def test_a_rank_of_0_is_none_of_wmts(write: Write) -> None:
    header = "system1Id,system2Id,system1rank,system2rank,judgeID\n"
    file = read_vote_file(write("wmt.csv", f"{header}x,y,0,2,k\nx,y,1,2,k\nx,y,-1,2,k\n"))
    assert (file.rejected, file.skipped, file.frame["outcome"].to_list()) == (1, 1, [0])


def test_a_weight_that_comes_late_is_not_ignored(write: Write) -> None:
    """The first objects of a file of lines say which columns it has."""
    vote = {"annotator": "k", "model_a": "x", "model_b": "y", "winner": "tie"}
    lines = "".join(json.dumps({**vote, **({"weight": 7} if i > 200 else {})}) + "\n" for i in range(220))
    path = write("late.jsonl", lines)
    with pytest.raises(UnreadableFileError, match="weight first comes"):
        read_vote_file(path)
    assert weights(read_vote_file(path, ReadOptions(columns="weight="))) == [None] * 220
