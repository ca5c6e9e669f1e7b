"""Files as they are met in the wild, made by hand in the shape of their source, with what they say counted by hand."""

import gzip
import io
import json
import shlex
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from app.cli.command import application
from app.database.engine import Database
from app.imports.runner import ImportRunner
from stable_arena import BradleyTerry, read_votes

Ask = Callable[..., Any]


def lines(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, one in files.items():
            packed.writestr(name, one)
    return content.getvalue()


@dataclass(frozen=True)
class Form:
    """A file, the options that read it, and what it says.

    `wins`: pair of models → how often the first won; `ties` the same, each pair in one order. `notes`: what is said.
    """

    name: str
    content: bytes
    options: str = ""
    wins: dict[str, float] = field(default_factory=dict)
    ties: dict[str, float] = field(default_factory=dict)
    skipped: int = 0
    notes: tuple[str, ...] = ()
    rate_alone: bool = False


UPLOADED = {"--columns": "columns", "--where": "where", "--verdict": "verdict", "--zero-rank": "zero_rank"}
PAIR = b"annotator,model_a,model_b,winner\nk,ant,bee,model_a\nk,ant,bee,model_b\nl,ant,bee,tie\nl,ant,bee,model_a\n"
OF_PAIR: dict[str, Any] = {"wins": {"ant bee": 2, "bee ant": 1}, "ties": {"ant bee": 1}}
ULTRA = [
    {"source": "evol", "instruction": f"q{i}", "models": list(grades), "completions": [
        {"model": model, "response": "…", "overall_score": grade, "annotations": {"honesty": {"Rating": "4"}}}
        for model, grade in grades.items()
    ]}
    for i, grades in enumerate([{"ant": 8.0, "bee": 7.5, "cat": 2}, {"ant": 5, "bee": 6, "cat": 6}])
]  # fmt: skip
STUDIO = [
    {"id": 1, "data": {"prompt": "p", "model_1": "ant", "model_2": "bee"}, "annotations": [
        {"id": 5, "completed_by": {"id": 3, "email": "x@example.org"}, "was_cancelled": False, "result": [
            {"type": "pairwise", "from_name": "which", "value": {"selected": "left"}},
            {"type": "textarea", "from_name": "why", "value": {"text": ["clear"]}},
        ]},
        {"id": 6, "completed_by": 4, "was_cancelled": True, "result": [{"value": {"selected": "left"}}]},
    ]},
    {"id": 2, "data": {"prompt": "q", "model_1": "bee", "model_2": "ant"}, "annotations": [
        {"id": 7, "completed_by": {"id": 3}, "was_cancelled": False, "result": [{"value": {"selected": "left"}}]},
        {"id": 8, "completed_by": {"id": 4}, "was_cancelled": False, "result": [{"value": {"selected": "right"}}]},
    ]},
    {"id": 3, "data": {"prompt": "r", "model_1": "bee", "model_2": "ant"}, "annotations": []},
]  # fmt: skip
STUDIO_COLUMNS = (
    "annotator=annotations[].completed_by,winner=annotations[].result[].value.selected,"
    "model_a=data.model_1,model_b=data.model_2"
)
HARD = [
    {"uid": "u1", "judge": "j", "model": "ant", "baseline": "bee", "games": [{"score": "A>>B"}, {"score": "A>B"}]},
    {"uid": "u2", "judge": "j", "model": "ant", "baseline": "bee", "games": [{"score": "B>A"}]},
    {"uid": "u3", "judge": "j", "model": "ant", "baseline": "bee", "games": [{"score": "A=B"}, {"score": None}]},
]  # fmt: skip
ALPACA = [
    {"instruction": f"q{i}", "generator_1": "ant", "generator_2": "bee", "annotator": "j", "preference": p}
    for i, p in enumerate([1.0, 1.25, 1.9, 2.0, 1.5, None])
]

FORMS = {
    "ultrafeedback": Form(
        "ultra.jsonl", lines(*ULTRA),
        "--columns model=completions[].model,rating=completions[].overall_score --pool-annotators",
        {"ant bee": 1, "ant cat": 1, "bee cat": 1, "bee ant": 1, "cat ant": 1}, {"bee cat": 1},
    ),
    "parallel lists": Form(
        "lists.jsonl",
        lines({"models": ["ant", "bee"], "scores": [1, 2]}, {"models": ["bee", "ant"], "scores": [1, 3]}),
        "--columns model=models[],rating=scores[] --pool-annotators", {"bee ant": 1, "ant bee": 1},
    ),
    "grades by model": Form(
        "object.jsonl",
        lines({"user_id": "u", "scores": {"ant": 1, "bee": 2}}, {"user_id": "u", "scores": {"ant": 3, "bee": 2}}),
        "--columns rating=scores.*", {"bee ant": 1, "ant bee": 1},
    ),
    "summaries with a choice": Form(
        "summaries.jsonl",
        lines(
            {"worker": "w", "summaries": [{"policy": "ant", "text": "…"}, {"policy": "bee", "text": "…"}], "choice": 2},
            {"worker": "w", "summaries": [{"policy": "ant", "text": "…"}, {"policy": "bee", "text": "…"}], "choice": 1},
        ),
        "--columns model_a=summaries.0.policy,model_b=summaries.1.policy,winner=choice",
        {"bee ant": 1, "ant bee": 1}, notes=("1 is the left one",),
    ),
    "label studio": Form(
        "tasks.json", json.dumps(STUDIO).encode(),
        f"--columns {STUDIO_COLUMNS} --where annotations[].was_cancelled=false",
        {"ant bee": 2, "bee ant": 1}, skipped=1, notes=("2 rows left out by --where",),
    ),
    "label studio, everyone": Form(
        "tasks.json", json.dumps(STUDIO).encode(), f"--columns {STUDIO_COLUMNS}", {"ant bee": 3, "bee ant": 1},
        skipped=2,
    ),
    "lists in a table": Form(
        "cells.csv", b"""user_id,ranked\nu,"['ant', 'bee']"\nu,"[""bee"", ""ant""]"\n""",
        "--columns ranking=ranked --skip-invalid", {"bee ant": 1}, rate_alone=True,
    ),
    "flat ranking": Form(
        "flat.jsonl",
        lines({"judge": "j", "ranking": ["ant", "bee", "cat"]}, {"judge": "j", "ranking": ["bee", "ant"]}),
        "", {"ant bee": 1, "ant cat": 1, "bee cat": 1, "bee ant": 1},
    ),
    "orders with multiplicity": Form(
        "orders.jsonl",
        lines({"ranking": ["ant", "bee", "cat"], "n": 3}, {"ranking": [["cat", "bee"], ["ant"]], "n": 2}),
        "--columns weight=n --pool-annotators",
        {"ant bee": 3, "ant cat": 3, "bee cat": 3, "bee ant": 2, "cat ant": 2}, {"bee cat": 2}, rate_alone=True,
    ),
    "columns in order": Form(
        "order.csv", b"voter,first,second,third\nv,ant,bee,cat\nw,bee,ant,\n",
        "--columns annotator=voter,model=first,model=second,model=third",
        {"ant bee": 1, "ant cat": 1, "bee cat": 1, "bee ant": 1},
    ),
    "ranks with counts": Form(
        "ballots.csv", b"count,ant,bee\n3,1,2\n2,2,1\n", "--columns rank=ant,rank=bee,weight=count --pool-annotators",
        {"ant bee": 3, "bee ant": 2}, rate_alone=True,
    ),
    "a column of grades each": Form(
        "wide.csv", b"rater,score_ant,score_bee,score_cat\nr,8,9,\ns,5,5,1\n",
        "--columns annotator=rater,rating=score_*",
        {"bee ant": 1, "ant cat": 1, "bee cat": 1}, {"ant bee": 1},
    ),
    "a column of ranks each": Form(
        "ranks.csv", b"rater;ant;bee;cat\nr;1;2;3\ns;2;1;2\n",
        "--columns annotator=rater,rank=ant,rank=bee,rank=cat",
        {"ant bee": 1, "ant cat": 1, "bee cat": 1, "bee ant": 1, "bee cat ": 1}, {"ant cat": 1},
    ),
    "tricot": Form(
        "tricot.csv",
        b"farmer,variety_a,variety_b,variety_c,best,worst\nf,ant,bee,cat,A,C\ng,bee,cat,ant,B,A\nh,bee,cat,ant,,\n",
        "--columns annotator=farmer,model=variety_*,best=best,worst=worst",
        {"ant bee": 1, "ant cat": 1, "bee cat": 1, "cat bee": 1, "cat ant": 1, "ant bee ": 1},
    ),
    "chosen and rejected": Form(
        "pairs.jsonl",
        lines({"user_id": "u", "chosen_model": "ant", "rejected_model": "bee"},
              {"user_id": "v", "chosen_model": "bee", "rejected_model": "ant"}),
        "--columns best=chosen_model,worst=rejected_model", {"ant bee": 1, "bee ant": 1},
    ),
    "counts of wins": Form(
        "baseball.csv", b"home.team,away.team,home.wins,away.wins\nant,bee,4,3\nbee,ant,2,0\n",
        "--columns model_a=home.team,model_b=away.team,wins_a=home.wins,wins_b=away.wins --pool-annotators",
        {"ant bee": 4, "bee ant": 5},
    ),
    "counts with ties": Form(
        "counts.csv", b"model_a,model_b,wins_a,wins_b,ties\nant,bee,4,3,2\nbee,cat,0,0,0\n", "--pool-annotators",
        {"ant bee": 4, "bee ant": 3}, {"ant bee": 2}, skipped=1,
    ),
    "kaggle's three columns": Form(
        "train.csv",
        b"id,model_a,model_b,winner_model_a,winner_model_b,winner_tie\n1,ant,bee,1,0,0\n2,ant,bee,0,1,0\n3,ant,bee,0,0,1\n",
        "--pool-annotators", {"ant bee": 1, "bee ant": 1}, {"ant bee": 1},
    ),
    "lmarena, public": Form(
        "arena.jsonl",
        lines(*(
            {"id": f"i{i}", "model_a": "ant", "model_b": "bee", "winner": winner, "evaluation_session_id": f"s{i // 2}",
             "evaluation_order": 1, "language": "en", "timestamp": "2025-05-01 10:00:00",
             "conv_metadata": {"sum_assistant_a_tokens": 10 * i, "sum_assistant_b_tokens": 30}}
            for i, winner in enumerate(["model_a", "both_bad", "model_b", "tie"])
        )),
        "--pool-annotators", {"ant bee": 1, "bee ant": 1}, {"ant bee": 2},
    ),
    "arena-hard": Form(
        "hard.jsonl", lines(*HARD), "", {"bee ant": 1, "ant bee": 2}, {"ant bee": 1}, skipped=2,
        notes=("1 graded verdict such as A>>B rounded",),
    ),
    "arena-hard, soft": Form(
        "hard.jsonl", lines(*HARD), "--soft", {"bee ant": 3, "ant bee": 2}, {"ant bee": 1}, skipped=2, rate_alone=True,
    ),
    "alpaca-eval": Form(
        "annotations.json", json.dumps(ALPACA).encode(), "", {"ant bee": 2, "bee ant": 2}, {"ant bee": 1}, skipped=1,
        notes=("2 graded verdicts such as 1.",),
    ),
    "alpaca-eval, soft": Form(
        "annotations.json", json.dumps(ALPACA).encode(), "--soft", {"ant bee": 1.85, "bee ant": 2.15}, {"ant bee": 1},
        skipped=1, rate_alone=True,
    ),
    "probabilities": Form(
        "p.csv", b"judge,model_a,model_b,p\nj,ant,bee,0.75\nj,bee,ant,0.1\n",
        "--columns winner=p --verdict 1=left,0=right --soft", {"ant bee": 1.65, "bee ant": 0.35}, rate_alone=True,
    ),
    "strengths": Form(
        "strengths.csv", b"judge,model_a,model_b,strength\nj,ant,bee,-3\nj,ant,bee,2\nj,ant,bee,0\n",
        "--columns winner=strength --verdict -3=left,3=right --soft", {"ant bee": 3, "bee ant": 2}, {"ant bee": 1},
        rate_alone=True,
    ),
    "open webui, regenerated": Form(
        "feedback.jsonl",
        lines(
            {"id": "f", "user_id": "u", "created_at": 1729600000, "data": {
                "rating": 1, "model_id": "ant", "sibling_model_ids": ["bee", "ant", "cat"]}},
            {"id": "g", "user_id": "u", "created_at": 1729600001, "data": {
                "rating": "-1", "model_id": "ant", "sibling_model_ids": ["bee"]}},
        ),
        "", {"ant bee": 1, "ant cat": 1, "bee ant": 1}, skipped=1, notes=("1 pair of a model with itself skipped",),
    ),
    "the winner's name": Form(
        "names.csv", b"annotator,model_a,model_b,winner\nk,ant,bee,ant\nk,bee,ant,ant\nl,ant,bee,bee\nl,ant,bee,\n",
        "", {"ant bee": 2, "bee ant": 1}, skipped=1,
    ),
    "a model called a": Form(
        "a.csv", b"annotator,model_a,model_b,winner\nk,A,bee,A\nk,bee,A,A\nk,bee,A,bee\n", "--verdict A=name",
        {"A bee": 2, "bee A": 1},
    ),
    "excel's unicode text": Form("votes.txt", PAIR.decode().replace(",", "\t").encode("utf-16"), **OF_PAIR),
    "utf-16, packed": Form("votes.csv.gz", gzip.compress(PAIR.decode().encode("utf-16")), **OF_PAIR),
    "an archive": Form("votes.zip", zipped({"votes.csv": PAIR, "__MACOSX/._votes.csv": b"?"}), **OF_PAIR),
    "gzip by no name": Form("votes.gz", gzip.compress(PAIR), **OF_PAIR),
    "gzip by another name": Form("votes.csv", gzip.compress(PAIR), **OF_PAIR),
    "sep=;": Form("sep.csv", b"sep=;\n" + PAIR.replace(b",", b";"), **OF_PAIR, notes=("the header is line 2",)),
    "a title": Form(
        "title.csv", b"Votes of May;;;\n\n" + PAIR.replace(b",", b";"), **OF_PAIR, notes=("the header is line 3",)
    ),
    "times of no use": Form(
        "times.csv", PAIR.replace(b"winner\n", b"winner,timestamp\n").replace(b"model_a\n", b"model_a,yesterday\n"),
        **OF_PAIR, notes=("2 times left out", "'yesterday' (line 2)"), rate_alone=True,
    ),
}  # fmt: skip


def expected(form: Form) -> dict[str, tuple[float, float, float]]:
    """Return wins, ties and losses of each model."""
    found: dict[str, list[float]] = {}
    for pairs, places in ((form.wins, (0, 2)), (form.ties, (1, 1))):
        for pair, often in pairs.items():
            for model, place in zip(pair.split(), places, strict=True):
                found.setdefault(model, [0.0, 0.0, 0.0])[place] += often
    return {model: (wins, ties, losses) for model, (wins, ties, losses) in found.items()}


def fitted(form: Form) -> dict[str, float]:
    """Return the scores of Bradley-Terry by the fixed points of Zermelo, of the models that won and lost."""
    names = sorted({name for pair in (*form.wins, *form.ties) for name in pair.split()})
    W = np.zeros((len(names), len(names)))
    for pairs, other in ((form.wins, 0.0), (form.ties, 0.5)):
        for pair, often in pairs.items():
            i, j = (names.index(name) for name in pair.split())
            W[i, j] += often * (0.5 if other else 1.0)
            W[j, i] += often * other
    before, strength = np.zeros(len(names)), np.ones(len(names))
    while np.abs(strength - before).max() > 1e-9 * strength.max():
        before, strength = strength, W.sum(axis=1) / ((W + W.T) / (strength[:, None] + strength)).sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
    score = 1000.0 + 400.0 * np.log10(strength)
    return dict(zip(names, (score - score.mean() + 1000.0).tolist(), strict=True))


def write(folder: Path, form: Form) -> Path:
    path = folder / form.name
    path.write_bytes(form.content)
    return path


@pytest.mark.parametrize("name", FORMS)
def test_rate_reads_it(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    path = write(tmp_path, form)
    method = ["--method", "m-elo", "--min-votes", "0", "--format", "json"]
    result = CliRunner().invoke(application, ["rate", str(path), *shlex.split(form.options), *method])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    models = {row["model"]: row for row in document["models"]}
    figures = {model: (row["wins"], row["ties"], row["losses"]) for model, row in models.items()}
    assert figures.keys() == expected(form).keys()
    for model, counts in expected(form).items():
        assert figures[model] == pytest.approx(counts), model
    assert document["votes"]["skipped"] == form.skipped
    for note in form.notes:
        assert note in result.stderr
    if all(row["identified"] for row in models.values()):
        for model, score in fitted(form).items():
            assert models[model]["score"] == pytest.approx(score, abs=0.01)


def options_of(form: Form) -> tuple[list[tuple[str, str]], bool]:
    words, pooled = shlex.split(form.options), "--pool-annotators" in form.options
    given = [(UPLOADED[word], value) for word, value in pairwise(words) if word in UPLOADED]
    return given, pooled


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if not form.rate_alone])
def test_an_upload_is_read_alike(name: str, ask: Ask, import_runner: ImportRunner, database: Database) -> None:
    form = FORMS[name]
    given, pooled = options_of(form)
    data: dict[str, Any] = {"pool_annotators": str(pooled).lower()}
    for field_name, value in given:
        data.setdefault(field_name, []).append(value)
    sent = ask("POST", "/imports", scope="ingest", files={"file": (form.name, form.content)}, data=data)
    assert sent.status_code == 202, sent.text
    import_runner.run_next()
    done = ask("GET", f"/imports/{sent.json()['id']}", scope="ingest").json()
    assert (done["state"], done["counts"]["rejected"], done["counts"]["skipped"]) == ("done", 0, form.skipped), done
    found = Counter[str]()
    with database.read() as conn:
        names = dict(conn.execute(text("SELECT id, name FROM models")).fetchall())
        for a, b, outcome, ranking in conn.execute(text("SELECT model_a_id, model_b_id, outcome, ranking FROM votes")):
            for first, second, code in _pairs(a, b, outcome, ranking):
                pair = (names[first], names[second]) if code != 1 else (names[second], names[first])
                found[" ".join(sorted(pair) if code > 1 else pair) + (" tie" if code > 1 else "")] += 1
    wanted = Counter[str]()
    for pairs, word in ((form.wins, ""), (form.ties, " tie")):
        for pair, often in pairs.items():
            wanted[pair.strip() + word] += int(often)
    assert found == wanted


def _pairs(a: int, b: int, outcome: int, ranking: Any) -> list[tuple[int, int, int]]:
    if ranking is None:
        return [(a, b, outcome)]
    groups = json.loads(ranking) if isinstance(ranking, str) else ranking
    placed = [(model, place) for place, group in enumerate(groups) for model in group]
    return [(x, y, 2 if i == j else int(i > j)) for n, (x, i) in enumerate(placed) for (y, j) in placed[n + 1 :]]


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
@pytest.mark.parametrize(
    "name", ["ultrafeedback", "label studio", "tricot", "counts of wins", "alpaca-eval, soft", "an archive"]
)
def test_a_notebook_reads_it(name: str, tmp_path: Path) -> None:
    form = FORMS[name]
    given, pooled = options_of(form)
    options: dict[str, Any] = dict(given)
    soft = "--soft" in form.options
    votes = read_votes(write(tmp_path, form), pool_annotators=pooled, soft=soft, **options)
    leaderboard = BradleyTerry(interval="none").fit(votes).leaderboard
    figures = {row["model"]: (row["wins"], row["ties"], row["losses"]) for row in leaderboard.iter_rows(named=True)}
    for model, counts in expected(form).items():
        assert figures[model] == pytest.approx(counts), model
