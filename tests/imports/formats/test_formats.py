"""Every format that is known, by a file as its source writes it, each with a record that is no vote."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas import SCHEMAS, ColumnsError
from app.imports.formats.whole import VoteFile, read_vote_file

FOLDER = Path(__file__).parent / "formats"
A, B, TIE, BOTH_BAD = range(4)


@dataclass(frozen=True)
class Expected:
    """What a file holds: (annotator, model_a, model_b, outcome) of its votes, and the rest of the first one."""

    votes: list[tuple[str, str, str, int]]
    skipped: int = 0
    faults: list[str] = field(default_factory=list)
    battle: str | None = None
    timestamp: datetime | None = None
    options: dict[str, object] = field(default_factory=dict)


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micro: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, second, micro, UTC)


EXPECTED = {
    "votes.csv": Expected(
        [
            ("ann", "owl", "elk", A), ("ann", "owl", "elk", B),
            ("bob", "elk", "owl", TIE), ("bob", "elk", "owl", BOTH_BAD),
        ],
        faults=["line 6, winner"],
        battle="b1",
        timestamp=at(2026, 1, 31, 12),
    ),
    "lmarena-33k.jsonl": Expected(
        [("arena_user_973", "owl", "elk", B), ("arena_user_973", "owl", "fox", BOTH_BAD)],
        faults=["line 3, winner"],
        battle="58210e39b3fd4441a2bd4a518bb44c2d",
        timestamp=at(2023, 4, 24, 15, 53, 11, 132_200),
    ),
    "lmarena-140k.jsonl": Expected(
        [("pooled", "owl", "elk", BOTH_BAD), ("pooled", "owl", "elk", A)],
        faults=["line 3, winner"],
        battle="0a7c",
        timestamp=at(2025, 5, 1, 10),
        options={"pool_annotators": True},
    ),
    "lmarena-100k.csv": Expected(
        [("e3b0", "owl", "elk", A), ("e3b0", "owl", "elk", TIE)],
        faults=["line 5, model_b"],
        battle="q1",
        timestamp=at(2024, 6, 18, 17, 52, 3, 200_000),
    ),
    "lmarena-55k.csv": Expected(
        [("pooled", "owl", "elk", A), ("pooled", "owl", "fox", B), ("pooled", "elk", "fox", TIE)],
        faults=["line 5, winner"],
        battle="30192",
        options={"pool_annotators": True},
    ),
    "counts.csv": Expected(
        [("k", "owl", "elk", A), ("k", "owl", "elk", B), ("k", "owl", "fox", TIE)], skipped=1, faults=["line 5, winner"]
    ),
    "search-arena.jsonl": Expected(
        [("arena_user_hash_1", "owl", "elk", A), ("arena_user_hash_2", "owl", "elk", BOTH_BAD)],
        skipped=1,
        faults=["line 4, winner"],
        timestamp=at(2025, 3, 23, 10),
    ),
    "mt-bench.csv": Expected(
        [("expert_1", "owl", "elk", A), ("expert_1", "owl", "elk", TIE), ("expert_1", "owl", "fox", B)],
        faults=["line 5, winner"],
    ),
    "fastchat-log.jsonl": Expected(
        [
            ("192.0.2.1", "owl", "elk", A), ("192.0.2.1", "owl", "elk", B),
            ("192.0.2.2", "fox", "elk", TIE), ("192.0.2.2", "fox", "elk", BOTH_BAD),
        ],
        skipped=2,
        faults=["line 7, states.0.model_name"],
        battle="c1",
        timestamp=at(2023, 5, 2, 4, 0, 1, 200_000),
        options={"annotator_column": "ip"},
    ),
    "comparia-votes.csv": Expected(
        [("v1", "owl", "elk", A), ("v1", "owl", "elk", B), ("v2", "owl", "elk", TIE)],
        skipped=1,
        faults=["line 6, chosen_model_name", "line 7, chosen_model_name"],
        battle="p1",
        timestamp=at(2025, 1, 15, 9, 30, 0, 123_456),
    ),
    "comparia-turns.jsonl": Expected(
        [("v1", "owl", "elk", A), ("v1", "owl", "elk", B), ("v1", "owl", "elk", TIE), ("v2", "owl", "elk", BOTH_BAD)],
        skipped=2,
        faults=["line 7, choice"],
        timestamp=at(2026, 2, 1, 9),
    ),
    "coval.csv": Expected(
        [("h1", "owl", "elk", A), ("h1", "owl", "elk", B), ("gpt", "owl", "elk", TIE)], faults=["line 5, outcome"]
    ),
    "minebench.csv": Expected(
        [("u1", "owl", "elk", A), ("u1", "owl", "elk", B), ("u2", "owl", "elk", TIE), ("u2", "owl", "elk", BOTH_BAD)],
        faults=["line 6, choice"],
    ),
    "autoarena.csv": Expected(
        [("1", "11", "12", A), ("1", "11", "13", B), ("2", "12", "13", TIE)], faults=["line 5, winner"]
    ),
    "bigcode-arena.jsonl": Expected(
        [("u1", "owl", "elk", A), ("u1", "owl", "elk", B), ("u2", "owl", "elk", TIE), ("u2", "owl", "elk", BOTH_BAD)],
        faults=["line 5, vote"],
    ),
    "tts-arena.csv": Expected(
        [("7", "owl", "elk", A), ("7", "elk", "fox", A)],
        skipped=1,
        timestamp=at(2025, 6, 1, 8),
    ),
    "evalica.csv": Expected(
        [("w1", "owl", "elk", A), ("w1", "owl", "elk", B), ("w2", "owl", "elk", TIE)], faults=["line 5, winner"]
    ),
    "crowd-kit.csv": Expected([("w1", "owl", "elk", A), ("w1", "owl", "elk", B)], faults=["line 4, label"]),
    "open-webui.jsonl": Expected(
        [("u1", "owl", "elk", A), ("u1", "owl", "fox", A), ("u1", "owl", "elk", B), ("u2", "owl", "elk", A)],
        skipped=3,
        faults=["line 6, item 1, data.rating"],
        battle="f1/elk",
        timestamp=at(2024, 10, 22, 12, 26, 40),
    ),
    "arena-hard.jsonl": Expected(
        [
            ("gpt-4.1", "elk", "owl", A), ("gpt-4.1", "owl", "elk", A), ("gpt-4.1", "elk", "owl", TIE),
            ("gpt-4.1", "elk", "fox", B),
        ],
        skipped=3,
        faults=["line 4, winner"],
        battle="u1/elk/owl",
    ),
    "arena-hard-v01.jsonl": Expected(
        [
            ("gpt-4-1106-preview", "baseline", "owl", A), ("gpt-4-1106-preview", "owl", "baseline", TIE),
            ("gpt-4-1106-preview", "owl", "baseline", B),
        ],
        skipped=2,
        faults=["line 3, winner"],
        battle="q1/baseline/owl",
    ),
    "judge-bench.jsonl": Expected(
        [
            ("arena_hard", "right", "wrong", A), ("arena_hard", "wrong", "right", A), ("key", "right", "wrong", A),
            ("arena_hard", "wrong", "right", TIE), ("key", "wrong", "right", B),
        ],
        skipped=3,
        faults=["line 3, winner"],
    ),
    "llmbar.json": Expected(
        [
            ("judge", "right", "wrong", A), ("judge", "wrong", "right", A), ("key", "right", "wrong", A),
            ("judge", "right", "wrong", A), ("key", "wrong", "right", B),
        ],
        skipped=3,
        faults=["item 3, winner"],
    ),
    "wmt.csv": Expected(
        [("judge-8", "owl", "fox", A), ("judge-8", "elk", "fox", A), ("judge-8", "fox", "hen", TIE)],
        skipped=1,
        faults=["line 5, winner"],
        battle="r1/owl/fox",
    ),
    "rankings-of-items.jsonl": Expected(
        [
            ("judge-8", "elk", "fox", A), ("judge-8", "elk", "owl", TIE), ("judge-8", "fox", "owl", B),
            ("judge-8", "fox", "owl", A),
        ],
        skipped=1,
        faults=["line 4, ranking", "line 5, ranking"],
        battle="620/elk/fox",
    ),
    "rankings.jsonl": Expected(
        [("ann", "elk", "fox", TIE), ("ann", "elk", "owl", B), ("ann", "fox", "owl", B)],
        faults=["line 2, ranking"],
        options={"keep_features": True},
        battle="b1/elk/fox",
    ),
    "grades.csv": Expected(
        [("j1", "elk", "owl", A), ("j1", "elk", "owl", B), ("j2", "elk", "owl", TIE)],
        skipped=1,
        faults=["line 11", "line 12"],
        battle="i1/elk/owl",
    ),
    "ranks.jsonl": Expected(
        [("j1", "elk", "fox", TIE), ("j1", "elk", "owl", A), ("j1", "fox", "owl", A)],
        skipped=1,
        faults=["line 5"],
        battle="7/elk/fox",
    ),
    "alpaca-eval.json": Expected(
        [
            ("weighted_alpaca_eval", "elk", "owl", A), ("weighted_alpaca_eval", "elk", "owl", B),
            ("weighted_alpaca_eval", "elk", "owl", TIE), ("weighted_alpaca_eval", "elk", "owl", TIE),
        ],
        skipped=1,
        faults=["item 6, preference"],
    ),
}  # fmt: skip


JSON_ALONE = ("fastchat-log.jsonl", "rankings-of-items.jsonl", "rankings.jsonl", "ranks.jsonl")


def assert_as_expected(file: VoteFile, expected: Expected) -> None:
    votes = file.frame
    assert votes.select("annotator", "model_a", "model_b", "outcome").rows() == expected.votes
    assert [fault.pointer for fault in file.faults] == expected.faults
    assert (file.skipped, file.rejected) == (expected.skipped, len(expected.faults))
    assert (votes["battle_id"][0], votes["voted_at"][0]) == (expected.battle, expected.timestamp)
    repeated = 1 if file.schema == "rankings-of-items" else 0
    assert file.rows_read == votes["row"].n_unique() + file.skipped + file.rejected + repeated


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_each_format(name: str) -> None:
    expected = EXPECTED[name]
    file = read_vote_file(FOLDER / name, ReadOptions(**expected.options))
    assert file.schema == name.partition(".")[0]
    assert_as_expected(file, expected)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in JSON_ALONE])
def test_the_same_as_parquet(name: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.parquet"
    read = {".csv": pl.read_csv, ".jsonl": pl.read_ndjson, ".json": pl.read_json}[Path(name).suffix]
    read(FOLDER / name).write_parquet(path)
    expected = EXPECTED[name]
    file = read_vote_file(path, ReadOptions(**expected.options))
    assert file.schema == name.partition(".")[0]
    assert file.frame.select("annotator", "model_a", "model_b", "outcome").rows() == expected.votes
    assert (file.skipped, file.rejected) == (expected.skipped, len(expected.faults))
    assert (file.frame["battle_id"][0], file.frame["voted_at"][0]) == (expected.battle, expected.timestamp)


def test_every_format_has_a_file_and_can_be_asked_for_by_name() -> None:
    names = {name.partition(".")[0]: name for name in EXPECTED}
    assert {schema.name for schema in SCHEMAS} - {"export-csv"} == names.keys()
    for schema, name in names.items():
        assert read_vote_file(FOLDER / name, ReadOptions(schema, **EXPECTED[name].options)).schema == schema


@pytest.mark.parametrize("name", ["lmarena-140k.jsonl", "lmarena-55k.csv", "fastchat-log.jsonl"])
def test_no_annotator_is_made_up(name: str) -> None:
    with pytest.raises(ColumnsError):
        read_vote_file(FOLDER / name)


def test_a_session_counts_when_asked_for() -> None:
    file = read_vote_file(FOLDER / "lmarena-140k.jsonl", ReadOptions(annotator_column="evaluation_session_id"))
    assert file.frame["annotator"].to_list() == ["s1", "s1"]
    assert file.annotator_column == "evaluation_session_id"
    file = read_vote_file(FOLDER / "comparia-votes.csv", ReadOptions(annotator_column="session_hash"))
    assert file.frame["annotator"].to_list() == ["h1", "h1", "h2"]
    with pytest.raises(ColumnsError):
        read_vote_file(FOLDER / "comparia-votes.csv", ReadOptions(annotator_column="seesion"))
    with pytest.raises(BadInputError):
        read_vote_file(
            FOLDER / "comparia-votes.csv", ReadOptions(annotator_column="session_hash", pool_annotators=True)
        )


def test_words_that_say_more_than_a_tie_are_kept() -> None:
    frame = read_vote_file(FOLDER / "comparia-turns.jsonl").frame
    assert frame["metadata"].to_list() == [None, None, '{"raw_winner":"both_good"}', None]
    frame = read_vote_file(FOLDER / "comparia-votes.csv").frame
    assert frame["metadata"].to_list() == [None, None, '{"raw_winner":"both_equal"}']


def test_judges_that_were_sure_are_kept() -> None:
    frame = read_vote_file(FOLDER / "arena-hard.jsonl").frame
    assert frame["metadata"].to_list() == ['{"raw_winner":"A>>B"}', None, None, None]
    assert frame["battle_id"].to_list() == ["u1/elk/owl", "u1/owl/elk", "u2/elk/owl", "u4/elk/fox"]


@pytest.mark.parametrize(
    ("name", "question", "category"),
    [
        ("arena-hard.jsonl", "u1", "hard_prompt"), ("arena-hard-v01.jsonl", "q1", None),
        ("judge-bench.jsonl", "p1", "livebench"), ("llmbar.json", "Say 1", None),
        ("alpaca-eval.json", "Say 0", "koala"), ("wmt.csv", "620", None), ("mt-bench.csv", "81/1", None),
    ],
)  # fmt: skip
def test_judges_are_compared_by_question_and_category(name: str, question: str, category: str | None) -> None:
    frame = read_vote_file(FOLDER / name, ReadOptions(judged=True, by="category")).frame
    assert frame["question"][0] == question
    assert (frame["category"][0] if "category" in frame.columns else None) == category


def test_a_kept_word_joins_the_metadata_there_are(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text('annotator,model_a,model_b,winner,metadata\nk,a,b,both_good,"{""x"": 1}"\nk,a,b,both_good,{}\n')
    assert read_vote_file(path).frame["metadata"].to_list() == [
        '{"raw_winner":"both_good","x":1}', '{"raw_winner":"both_good"}',
    ]  # fmt: skip


def test_what_is_said_of_an_unknown_word() -> None:
    details = {
        name: read_vote_file(FOLDER / name, ReadOptions(**EXPECTED[name].options)).faults[-1].detail
        for name in ("lmarena-55k.csv", "comparia-votes.csv", "open-webui.jsonl")
    }
    assert details["lmarena-55k.csv"] == "unknown outcome '1,0,1'"
    assert details["comparia-votes.csv"] == "unknown outcome 'both_equal and owl'"
    assert details["open-webui.jsonl"] == "unknown outcome '5'"


@pytest.mark.parametrize("siblings", ['"elk"', "1", "[true]", "[[]]"])
def test_feedback_whose_siblings_are_no_names_is_faulty(siblings: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    row = '{"user_id": "u", "data": {"rating": 1, "model_id": "owl", "sibling_model_ids": %s}}\n'
    path.write_text(row % '["elk"]' + row % siblings)
    file = read_vote_file(path)
    assert (file.frame.height, file.rejected) == (1, 1)


def test_our_columns_win_over_others(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(
        "annotator,judge,model_a,model_b,winner,vote,choice,outcome,voter_type\nk,j,a,b,tie,left,A,A_WIN,x\n"
    )
    file = read_vote_file(path)
    assert (file.schema, file.frame["outcome"].to_list(), file.frame["annotator"].to_list()) == ("votes", [2], ["k"])
