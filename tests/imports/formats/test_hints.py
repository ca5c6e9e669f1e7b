"""What is proposed for a file whose columns are not known, or whose verdicts have two readings, reads the file."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.command import application
from app.imports.formats.errors import UnreadableFileError
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas import ColumnsError
from app.imports.formats.whole import read_vote_file
from tests.imports.test_wild_forms import STUDIO, ULTRA

Write = Callable[[str, str | bytes], Path]
RATE = ["--method", "m-elo", "--min-votes", "0", "--format", "json"]


def rate(*arguments: object) -> Result:
    return CliRunner().invoke(application, ["rate", *map(str, arguments), *RATE])


def wins_of(result: Result) -> dict[str, tuple[float, float, float]]:
    assert result.exit_code == 0, result.stderr
    return {row["model"]: (row["wins"], row["ties"], row["losses"]) for row in json.loads(result.stdout)["models"]}


HEADERS = {
    "r.csv": ("Rater,Model 1,Model 2,Preferred\nr,ant,bee,ant\nr,bee,ant,bee\n", (1, 0, 1)),
    "s.csv": (
        "left_model,right_model,response_left,response_right,verdict\nant,bee,x,y,left\nbee,ant,z,w,tie\n",
        (1, 1, 0),
    ),
    "u.csv": ("Annotator;Model A;model-b;Winner\nu;ant;bee;B\nu;bee;ant;A\n", (0, 0, 2)),
    "c.csv": ("judge,model_a,model_b,Vote\nk,ant,bee,1\nk,bee,ant,2\n", (2, 0, 0)),
    "p.jsonl": (
        '{"prompt": "p", "chosen_model": "ant", "rejected_model": "bee", "chosen": "x", "rejected": "y"}\n',
        (1, 0, 0),
    ),
    "h.csv": ("home.team,away.team,home.wins,away.wins\nant,bee,4,3\n", (4, 0, 3)),
    "t.csv": ("farmer,variety_a,variety_b,variety_c,best,worst\nf,ant,bee,cat,A,C\n", (2, 0, 0)),
    "w.csv": ("user_id,prompt,score_ant,score_bee\nx,p,3,4\ny,p,4,4\n", (0, 1, 1)),
    "g.csv": ("rater,question,model name,score\nx,1,ant,3\nx,1,bee,2\n", (1, 0, 0)),
    "ultra.jsonl": ("".join(json.dumps(one) + "\n" for one in ULTRA), (2, 0, 2)),
    "tasks.json": (json.dumps(STUDIO), (3, 0, 1)),
    "two.jsonl": (
        json.dumps(
            {
                "worker": "w",
                "summaries": [{"policy": "ant", "text": "x"}, {"policy": "bee", "text": "y"}],
                "choice": "first",
            }
        )
        + "\n",
        (1, 0, 0),
    ),
    "grades.csv": ("annotator,model_a,model_b,score_a,score_b\nk,ant,bee,3,4\nk,bee,ant,1,5\n", (1, 0, 1)),
    "baseline.csv": ("judge,baseline,challenger,winner\nj,ant,bee,ant\nj,ant,cat,cat\n", (1, 0, 1)),
    "slots.csv": ("voter,item1,item2,vote\nv,ant,bee,item1\nv,bee,ant,item1\n", (1, 0, 1)),
    "form.csv": ("Voter,Model A name,Model B name,Which is better?\nk,ant,bee,Model A\nk,ant,bee,Same\n", (1, 1, 0)),
    "min.json": ('[{"id": 1, "m1": "ant", "m2": "bee", "comparison": "left", "annotator": 1}]', (1, 0, 0)),
    "wide.csv": ("judge,ant,bee,cat\nj,1,2,3\nk,3,1,2\n", (2, 0, 2)),
    "who.csv": ("Reviewer,model_a,model_b,winner\nk,ant,bee,model_a\n", (1, 0, 0)),
}


@pytest.mark.parametrize("name", HEADERS)
def test_what_is_proposed_reads_the_file(name: str, write: Write) -> None:
    content, of_ant = HEADERS[name]
    path = write(name, content)
    refused = rate(path)
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    proposed = refused.stderr.partition("perhaps ")[2]
    assert proposed.startswith("--columns "), refused.stderr
    assert wins_of(rate(path, *shlex.split(proposed)))["ant"] == of_ant


@pytest.mark.parametrize(
    ("content", "of_ant"),
    [
        ("k,ant,bee,model_a\nk,bee,ant,tie\n", (1, 1, 0)),
        ("ant,tie,bee\nant,left,bee\n", None),
        ("annotator~model_a~model_b~winner\nk~ant~bee~model_a\n", (1, 0, 0)),
    ],
)
def test_a_command_for_a_file_without_a_header_or_a_known_mark(
    content: str, of_ant: tuple[int, int, int] | None, write: Write
) -> None:
    path = write("v.csv", content)
    said = rate(path).stderr
    command = re.search(r": ((?:tr|\(echo) .*)", said)
    assert command is not None
    program = f"{sys.executable} -m app.cli"
    line = command[1].replace("FILE", str(path)).replace("stable-arena", program)
    options = " ".join([*RATE, *([] if of_ant else ["--pool-annotators"])])
    run = subprocess.run(["sh", "-c", f"{line} {options}"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    models = {row["model"]: (row["wins"], row["ties"], row["losses"]) for row in json.loads(run.stdout)["models"]}
    assert models["ant"] == (of_ant or (1, 1, 0))


def test_what_is_proposed_for_words_reads_the_file(write: Write) -> None:
    words = ("Model B", "Response 1 is better", "about the same", "Both are bad", "model_a_wins")
    path = write("v.csv", "annotator,model_a,model_b,winner\n" + "".join(f"k,ant,bee,{word}\n" for word in words))
    proposed = rate(path).stderr.partition("perhaps ")[2].partition(" (over")[0]
    assert proposed.count("--verdict") == len(words)
    assert "'Both are bad=both_bad'" in proposed
    assert wins_of(rate(path, *shlex.split(proposed)))["ant"] == (2, 2, 1)
    odd = write("w.csv", "annotator,model_a,model_b,winner\nk,ant,bee,A and B\nk,ant,bee,Model B\n")
    assert "=left'" in rate(odd).stderr
    assert "perhaps" not in rate(odd).stderr


NUMBERS = {
    "0 or 1": ("1 0 1", [(2, 0, 1), (1, 0, 2)]),
    "a probability": ("0.9 0.2 0.5", [(1, 1, 1), (1, 1, 1)]),
    "from -3 to 3": ("-3 0 2 3", [(2, 1, 1), (1, 1, 2)]),
    "from 1 to 5": ("1 3 4 5", [(2, 1, 1), (1, 1, 2)]),
    "three numbers": ("0 1 2 2", [(1, 1, 2), (1, 2, 1)]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_with_two_readings_are_refused_with_both(name: str, write: Write) -> None:
    texts, readings = NUMBERS[name]
    rows = "".join(f"k,ant,bee,{text}\n" for text in texts.split())
    path = write("v.csv", "annotator,model_a,model_b,winner\n" + rows)
    refused = rate(path)
    assert refused.exit_code == 2
    proposed = re.findall(r"--verdict \S+", refused.stderr)
    assert [wins_of(rate(path, *one.split()))["ant"] for one in proposed] == readings


def test_what_was_assumed_of_numbers_is_said(write: Write) -> None:
    file = read_vote_file(write("v.csv", "annotator,model_a,model_b,winner\nk,a,b,1\nk,a,b,2\nk,a,b,1.5\n"))
    assert (file.frame["outcome"].to_list(), len(file.notes)) == ([0, 1, 2], 1)
    assert "1 is the left one, 2 the right one" in file.notes[0]


def test_the_whole_column_says_what_a_number_means(write: Write) -> None:
    rows = "k,ant,bee,1\n" * 60_000 + "k,ant,bee,0\n"
    path = write("v.csv", "annotator,model_a,model_b,winner\n" + "k,ant,bee,2\n" + rows)
    assert "0=tie,1=left,2=right" in rate(path).stderr


def test_a_word_that_is_also_the_name_of_the_other_model(write: Write) -> None:
    path = write("v.csv", "annotator,model_a,model_b,winner\nk,A,b,A\nk,b,A,A\n")
    refused = rate(path)
    assert "--verdict A=left or --verdict A=name" in refused.stderr
    assert wins_of(rate(path, "--verdict", "A=left"))["A"] == (1, 0, 1)
    assert wins_of(rate(path, "--verdict", "A=name"))["A"] == (2, 0, 0)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (("status=Approved",), ["m", "n"]), (("status!=approved",), ["o", "p"]), (("status=",), ["p"]),
        (("status=approved", "status=rejected"), ["m", "n", "o"]), (("status=approved", "lang=de"), ["n"]),
    ],
)  # fmt: skip
def test_rows_are_chosen(where: tuple[str, ...], rows: list[str], write: Write) -> None:
    content = "status,lang,annotator,model_a,model_b,winner\n" + "".join(
        f"{status},{lang},k,{name},z,tie\n"
        for status, lang, name in (
            ("approved", "en", "m"),
            ("approved", "de", "n"),
            ("rejected", "en", "o"),
            ("", "en", "p"),
        )
    )
    path = write("v.csv", content)
    file = read_vote_file(path, ReadOptions(where=where))
    assert file.frame["model_a"].to_list() == rows
    assert file.notes == [f"{4 - len(rows):,} rows left out by --where"]


def test_what_is_wrong_with_a_choice_of_rows(write: Write) -> None:
    path = write("v.csv", "status,annotator,model_a,model_b,winner\nx,k,a,b,won\nok,k,a,b,tie\nok,k,a,b,lost\n")
    assert read_vote_file(path, ReadOptions(where=("status=ok",))).faults[0].pointer == "line 4, winner"
    for where, said in (
        ("status", "COLUMN=VALUE"),
        ("state=ok", "no column 'state'"),
        ("status=no", "no row is left of 3"),
    ):
        refused = rate(path, "--where", where)
        assert (refused.exit_code, said in refused.stderr) == (2, True)


def test_places_of_rows_inside_of_records(write: Write) -> None:
    lists = [{"a": [{"m": "x", "w": ["tie", "won"]}]}, {"a": [{"m": "y", "w": []}, {"m": "z", "w": ["tie"]}]}, {"a": 3}]
    path = write("v.jsonl", "".join(json.dumps({"k": "k", "b": "b", **one}) + "\n" for one in lists))
    options = ReadOptions(columns="annotator=k,model_a=a[].m,model_b=b,winner=a[].w[]")
    file = read_vote_file(path, options)
    assert file.frame["model_a"].to_list() == ["x", "z"]
    assert [fault.pointer.rpartition(",")[0] for fault in file.faults] == ["line 1, item 1.2", "line 3"]
    unlike = write("w.jsonl", json.dumps({"k": "k", "m": ["a", "b"], "s": [1]}) + "\n")
    file = read_vote_file(unlike, ReadOptions(columns="annotator=k,model=m[],rating=s[]"))
    assert "lists with different items" in file.faults[0].detail


def test_an_archive_of_several_files_is_refused(write: Write) -> None:
    from tests.imports.test_wild_forms import PAIR, zipped  # noqa: PLC0415  beside its only use

    with pytest.raises(UnreadableFileError, match="has 2 files"):
        read_vote_file(write("v.zip", zipped({"a.csv": PAIR, "b.csv": PAIR})))
    with pytest.raises(UnreadableFileError, match=r"v\.zip"):
        read_vote_file(write("v.zip", b"PK\x03\x04 nothing"))
    with pytest.raises(ColumnsError, match=r"v\.txt: missing columns"):
        read_vote_file(write("v.txt", "x\ty\n1\t2\n".encode("utf-16")))


def test_a_column_that_is_read_twice_is_counted_once(write: Write) -> None:
    """The scale of verdicts and the order of dates are found in the whole column, before the first vote is read."""
    rows = (
        "".join(f"{'no' if i % 3 == 0 else 'ok'},k,a,b,{1 + i % 2},1/2/2026\n" for i in range(9))
        + "ok,k,a,b,1,1/25/2026\n"
    )
    path = write("v.csv", "status,annotator,model_a,model_b,winner,timestamp\n" + rows)
    file = read_vote_file(path, ReadOptions(where=("status=ok",), keep_features=True))
    assert (file.frame.height, "3 rows left out by --where" in file.notes) == (7, True)
    assert file.frame["voted_at"].dt.day().to_list() == [2] * 6 + [25]
    record = {"tasks": [{"by": "k", "at": "25/1/2026", "w": "A"}, {"by": "l", "at": "2/1/2026", "w": "?"}]}
    nested = write("v.jsonl", json.dumps({**record, "a": "x", "b": "y"}) + "\n")
    columns = "annotator=tasks[].by,timestamp=tasks[].at,winner=tasks[].w,model_a=a,model_b=b"
    file = read_vote_file(nested, ReadOptions(columns=columns, keep_features=True))
    assert file.frame["voted_at"].dt.day().to_list() == [25]
    assert file.faults[0].pointer == "line 1, item 2, tasks[].w"
