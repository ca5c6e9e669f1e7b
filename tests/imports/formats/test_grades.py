"""Grades of one answer each, in tables and in what Inspect and LangWatch write, are rankings of an item's answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.inputs import given_files
from app.imports.formats.errors import NoVotesError
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader
from app.imports.formats.whole import read_vote_file

Write = Callable[[str, str | bytes], Path]
A, B, TIE = range(3)


def log_of(model: str, grades: list[Any], status: str = "success") -> dict[str, Any]:
    scorers = [{"name": "match", "params": {}}, {"name": "model_graded_qa", "params": {"model": "openai/judge"}}]
    samples = [
        {"id": number, "epoch": 1, "input": "?", "target": "!", "scores": {scorer: {"value": grade}}}
        for number, (scorer, grade) in enumerate(grades)
    ]
    return {"version": 2, "status": status, "eval": {"task": "quiz", "model": model}, "results": {"scores": scorers},
            "samples": samples}  # fmt: skip


OWL = log_of("owl", [("match", "C"), ("match", True), ("model_graded_qa", {"clear": 4, "true": "P"}), ("match", None)])
ELK = log_of("elk", [("match", "I"), ("match", 1), ("model_graded_qa", {"clear": 2.5, "true": "C"}), ("match", 1)])
VOTES = [
    ("match", "quiz/0", None, B), ("match", "quiz/1", None, TIE),
    ("model_graded_qa/openai/judge", "quiz/2", "clear", B),
    ("model_graded_qa/openai/judge", "quiz/2", "true", A),
]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(OWL, indent=2) + json.dumps(ELK, indent=2),  # as files without an end of line are joined
        json.dumps(OWL, indent=1) + "\n\n" + json.dumps(ELK, indent=1) + "\n",
        json.dumps(OWL) + "\n" + json.dumps(ELK) + "\n",
        json.dumps([OWL, ELK], indent=2),
    ],
)
def test_logs_of_inspect(content: str, write: Write) -> None:
    reader = VoteReader(write("logs.json", content), ReadOptions())
    [batch] = reader.batches(max_faults=1)
    assert batch.votes.select("annotator", "battle_id", "criterion", "outcome").rows() == VOTES
    assert set(batch.votes["annotator_kind"]) == {"judge"}
    assert (batch.skipped, reader.notes) == (1, [])


def test_commands_join_logs(write: Write) -> None:
    logs = [write(f"{log['eval']['model']}.json", json.dumps(log, indent=2)) for log in (OWL, ELK)]
    with given_files(logs) as files:
        (batch,) = VoteReader(*files, ReadOptions()).batches(max_faults=1)
        assert batch.votes.select("annotator", "battle_id", "criterion", "outcome").rows() == VOTES
    with given_files([logs[0], write("votes.json", "[]")]) as files:
        assert [file.name for file in files] == ["owl.json", "votes.json"]


def test_what_is_wrong_with_a_log_is_said(write: Write) -> None:
    with pytest.raises(NoVotesError, match="in one file"):
        read_vote_file(write("owl.json", json.dumps(OWL, indent=2)))
    failed = log_of("fox", [("match", "good"), ("match", [1])], status="error")
    content = "\n".join(map(json.dumps, [OWL, ELK, failed, failed]))
    file = read_vote_file(write("logs.jsonl", content), ReadOptions(criterion="clear"))
    assert file.notes == ["the log of fox has the status error"]
    assert [(fault.pointer, fault.detail) for fault in file.faults] == [
        ("sample 0 of fox", "rating must be a number"), ("sample 1 of fox", "rating must be text, is a list"),
    ]  # fmt: skip


LANGWATCH = """\
index,input,gpt_model,gpt_output,gpt_cost,gpt_error,gpt_trace_id,gpt_exact_score,gpt_exact_passed,gpt_exact_label,\
gpt_judge_score,gpt_judge_passed,gpt_mini_output,gpt_mini_cost,gpt_mini_error,gpt_mini_trace_id,gpt_mini_exact_score,\
gpt_mini_exact_passed,gpt_mini_exact_label,gpt_mini_judge_score,gpt_mini_judge_passed
0,2+2?,m,4,0.01,,t1,,true,,0.25,false,5,0.01,,t2,,false,,0.5,true
1,3+3?,m,6,0.01,,t3,,true,,Error,,6,0.01,,t4,,true,,0.7,true
2,4+4?,m,8,0.01,,t3,,true,,0.1,,6,0.01,,t4,,Skipped,,0.7,true
"""


def test_results_of_langwatch(write: Write) -> None:
    file = read_vote_file(write("results.csv", LANGWATCH))
    votes = file.frame.select("annotator", "model_a", "model_b", "outcome", "annotator_kind")
    pair = ("gpt", "gpt_mini")
    assert votes.rows() == [
        ("exact", *pair, A, "judge"), ("judge", *pair, B, "judge"), ("exact", *pair, TIE, "judge"),
        ("judge", *pair, B, "judge"),
    ]  # fmt: skip
    assert (file.skipped, [fault.pointer for fault in file.faults]) == (1, ["line 4"])


def test_a_ranking_on_record_has_at_most_twenty_models(write: Write) -> None:
    rows = [f"k,i{item},m{model},{model % 7}" for item, n in ((1, 20), (2, 21)) for model in range(n)]
    path = write("grades.csv", "\n".join(["annotator,item,model,rating", *rows]))
    file = read_vote_file(path, ReadOptions(keep_features=True))
    assert (file.frame.height, file.rejected, file.faults[0].pointer) == (190, 1, "line 22")
    assert "keep the best of them" in file.faults[0].detail
    assert read_vote_file(path).frame.height == 190 + 210, "nothing is stored"
