import csv
import io
from collections.abc import Callable
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.leaderboard.row_files import rows_csv
from app.refits.schedule import due_trigger

Ask = Callable[..., Any]

VOTE = {"model_a": "ant", "model_b": "bee", "winner": "model_a", "annotator": "judge"}


def board_of(ask: Ask, **query: Any) -> Any:
    answer = ask("GET", "/leaderboard", scope=None, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_method_and_tag_has_its_board(ask: Ask, three: int) -> None:
    assert board_of(ask, tag="")["tag"] is None
    for method in ("am-elo", "m-elo", "m-elo-all", "elo"):
        board = board_of(ask, method=method)
        assert (board["method"], board["tag"]) == (method, None)
        assert board["models"][0]["model"] == ("bee" if method == "m-elo" else "ant")
        assert len(board["models"]) == 3
    tagged = board_of(ask, tag="code")
    assert (tagged["method"], tagged["tag"]) == ("am-elo", "code")
    assert [(row["model"], row["votes"]) for row in tagged["models"]] == [("cat", 9), ("ant", 8)]
    shown = ask("GET", f"/snapshots/{three}", scope=None).json()
    assert (shown["boards"], shown["tags"]) == (["am-elo", "elo", "m-elo", "m-elo-all"], ["code"])


def test_a_board_that_is_not_there(ask: Ask, publish: Ask, assert_problem: Ask) -> None:
    one: dict[str, dict[str, Any]] = {"ant": {}}
    publish({("am-elo", ""): one, ("am-elo", "code"): one, ("am-elo", "é"): one})
    for query, said in {
        "method=elo": "it has am-elo",
        "compare=m-elo": "no m-elo leaderboard",
        "tag=nothing": "'code', 'é'",
        "tag=nul%00": "'code'",
        "tag=code&method=m-elo": "of the tag 'code'; it has am-elo",
    }.items():
        problem = assert_problem(ask("GET", f"/leaderboard?{query}", scope=None), 404, "no-such-board")
        assert said in problem["detail"]
    assert_problem(ask("GET", "/snapshots/1/diff/1?method=elo"), 404, "no-such-board")
    for query in ("compare=elo2", "compare=elo,", "method=pagerank", "format=table"):
        assert_problem(ask("GET", f"/leaderboard?{query}"), 422, "invalid")


def test_methods_side_by_side(ask: Ask, three: int) -> None:
    board = board_of(ask, compare="m-elo,elo")
    assert [row["compared"] for row in board["models"]] == [
        {"m-elo": {"rank": 2, "score": 1090.0}, "elo": {"rank": 1, "score": 1100.0}},
        {"m-elo": {"rank": 1, "score": 1110.0}, "elo": {"rank": 2, "score": 1000.0}},
        {"m-elo": {"rank": 3, "score": 900.0}, "elo": {"rank": 3, "score": 900.0}},
    ]
    assert all(row["compared"] == {} for row in board_of(ask)["models"])
    flat = pl.read_csv(ask("GET", "/leaderboard?compare=m-elo-all&format=csv").content)
    assert flat["m_elo_all_rank"].to_list() == [1, 2, 3]


def test_neighbours_that_a_handful_of_votes_decides(ask: Ask, three: int) -> None:
    ties = [(row["tied"], row["tied_with"]) for row in board_of(ask)["models"]]
    assert ties == [(None, None), (False, None), (True, "bee")]
    assert {row["tied"] for row in board_of(ask, method="m-elo")["models"]} == {None}
    ask("PATCH", "/models/bee", json={"name": "BEE"})
    assert board_of(ask)["models"][2]["tied_with"] == "BEE", "named as it is called now"
    ask("PATCH", "/models/BEE", json={"archived": True})
    hidden = board_of(ask)
    assert [(row["model"], row["tied"], row["tied_with"]) for row in hidden["models"]] == [
        ("ant", None, None),
        ("cat", None, None),
    ]
    assert hidden["archived"] == 1


def test_files_say_what_they_are(ask: Ask, three: int) -> None:
    text_file = ask("GET", "/leaderboard?format=csv&tag=code", scope=None)
    rows = list(csv.DictReader(io.StringIO(text_file.text)))
    assert [(row["model"], row["method"], row["tag"]) for row in rows] == [
        ("cat", "am-elo", "code"),
        ("ant", "am-elo", "code"),
    ]
    answer = ask("GET", "/leaderboard?format=parquet", scope=None)
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert answer.headers["content-disposition"] == f'attachment; filename="leaderboard-{three}-am-elo.parquet"'
    typed = pl.read_parquet(io.BytesIO(answer.content))
    assert typed["model"].to_list() == ["ant", "bee", "cat"]
    assert typed["tied"].to_list() == [None, False, True]
    kinds = {name: typed.schema[name] for name in ("score", "rank", "tied", "tied_with", "tag", "license")}
    assert list(kinds.values()) == [pl.Float64, pl.Int64, pl.Boolean, pl.String, pl.String, pl.String]
    elo = pl.read_parquet(io.BytesIO(ask("GET", "/leaderboard?format=parquet&method=elo").content))
    assert elo["best_rank"].dtype == pl.Int64
    for model in ("ant", "cat"):
        ask("PATCH", f"/models/{model}", json={"archived": True})
    assert ask("GET", "/leaderboard?format=csv&tag=code").text.startswith("model,score,")


def test_the_shape_of_arena_catalog(ask: Ask, publish: Ask) -> None:
    boards = {
        ("am-elo", ""): {
            "ant": {},
            "new": {"score": None, "se": None, "lower": 900.0, "upper": None, "identified": False},
            "island": {"component": 1},
        },
        ("am-elo", "code"): {"ant": {"lower": None}},
        ("m-elo", ""): {"ant": {}},
    }
    publish(boards)
    whole = {"ant": {"rating": 1100.0, "rating_q975": 1120.0, "rating_q025": 1080.0}}
    code = {"ant": {"rating": 1100.0, "rating_q975": 1120.0, "rating_q025": None}}
    answer = ask("GET", "/leaderboard/arena-catalog", scope=None)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"full": whole, "code": code}
    assert ask("GET", "/leaderboard/arena-catalog", params={"tag": "code"}).json() == {"code": code}
    assert ask("GET", "/leaderboard/arena-catalog", params={"method": "m-elo"}).json() == {"full": whole}


def test_arena_catalog_has_the_largest_component_with_scores(ask: Ask, publish: Ask) -> None:
    unscored = {"score": None, "se": None, "lower": None, "upper": None, "identified": False}
    publish(
        {
            ("am-elo", ""): {
                "always": {**unscored, "votes": 10_000},
                "never": {**unscored, "votes": 10_000},
                "ant": {"component": 1},
                "bee": {"component": 1, **unscored},
                "island": {"component": 2},
            },
            ("am-elo", "code"): {"always": unscored},
        }
    )
    catalog = ask("GET", "/leaderboard/arena-catalog").json()
    assert {category: list(models) for category, models in catalog.items()} == {"full": ["ant"], "code": []}


def test_entity_tags_follow_what_is_said(ask: Ask, three: int, database: Database) -> None:
    queries = (
        "",
        "?format=csv",
        "?format=parquet",
        "/arena-catalog",
        "?tag=code",
        "?compare=elo",
        "?method=elo",
    )

    def tags() -> dict[str, str]:
        return {query: ask("GET", f"/leaderboard{query}").headers["etag"] for query in queries}

    first = tags()
    assert len(set(first.values())) == len(queries)
    assert tags() == first
    for query, tag in first.items():
        named = ask("GET", f"/leaderboard{query}", headers={"If-None-Match": tag})
        assert (named.status_code, named.content, named.headers["etag"]) == (304, b"", tag)
    with database.begin() as conn:
        conn.execute(text("UPDATE snapshots SET published_at = published_at - interval '3 hours'"))
    assert tags()[""] != first[""], "published_at is said"
    aged = tags()
    assert tags() == aged, "the age alone is nothing new"

    assert ask("POST", "/votes", json=VOTE).status_code == 201
    voted = tags()
    assert {query for query in queries if voted[query] != aged[query]} == {
        "",
        "?tag=code",
        "?compare=elo",
        "?method=elo",
    }
    ask("PATCH", "/models/cat", json={"organization": "Cat Inc."})
    renamed = tags()
    unchanged = {query for query in queries if renamed[query] == voted[query]}
    assert unchanged == {"/arena-catalog"}, "it names no organizations"
    stranger = ask("GET", "/leaderboard?tag=nothing", headers={"If-None-Match": "*"})
    assert stranger.status_code == 404, "nothing is not unchanged"


def test_how_fresh_a_board_is(ask: Ask, three: int, database: Database) -> None:
    board = board_of(ask)
    fresh = ("votes_not_in_board", "stale", "next_refit_due_at")
    assert [board[name] for name in fresh] == [0, False, None]
    assert board["published_at"] == board["snapshot"]["published_at"]
    assert 0 <= board["age_seconds"] < 600
    with database.begin() as conn:
        conn.execute(text("UPDATE snapshots SET published_at = published_at - interval '3 hours'"))
        ended = conn.execute(text("SELECT to_json(max(finished_at) + interval '10 minutes') FROM refits")).scalar_one()
    old = board_of(ask)
    assert old["age_seconds"] > 3 * 3600
    assert not old["stale"], "no votes wait"
    ask("POST", "/votes", json=VOTE)
    stale = board_of(ask)
    assert [stale[name] for name in fresh[:2]] == [1, True]
    assert stale["next_refit_due_at"][:19] == ended[:19]


@pytest.mark.parametrize("news", ["decision", "policy"])
def test_the_next_refit_is_due_when_the_schedule_runs_it(
    ask: Ask, crowd: list[str], refit: Ask, database: Database, news: str
) -> None:
    refit()

    def due() -> tuple[bool, bool]:
        """Return what the leaderboard says, that there is a time and that it has come, and what the schedule says."""
        with database.read() as conn:
            at = board_of(ask)["next_refit_due_at"]
            said = at is not None and datetime.fromisoformat(at) <= conn.execute(text("SELECT now()")).scalar_one()
            assert (due_trigger(conn) is not None) == said
        return at is not None, said

    assert due() == (False, False)
    if news == "policy":
        assert ask("PUT", "/policy", json={**ask("GET", "/policy").json(), "reason": "a test"}).status_code == 200
    else:
        body = {"action": "trust", "reason": "a test"}
        assert ask("POST", f"/annotators/{crowd[0]}/decisions", json=body).status_code == 201
    assert due() == (True, False)
    with database.begin() as conn:
        conn.execute(text("UPDATE refits SET finished_at = finished_at - interval '601 seconds'"))
    assert due() == (True, True)


@pytest.mark.parametrize("path", ["/leaderboard", "/matchups"])
def test_what_anyone_may_read_anyone_may_read(ask: Ask, assert_problem: Ask, path: str) -> None:
    assert_problem(ask("GET", path, scope=None), 404, "no-snapshot")
    assert_problem(ask("GET", path, scope="ingest"), 404, "no-snapshot")
    for shown in ("Bearer sa_nonsense", "Bearer", "Basic x", "nonsense"):
        assert_problem(ask("GET", path, scope=None, headers={"Authorization": shown}), 404, "no-snapshot")


@pytest.mark.parametrize("start", [*"=+-@\t\r", *"\uff1d\uff0b\uff0d\uff20\ufeff\u200b"])
def test_no_cell_starts_as_a_formula(start: str) -> None:
    assert rows_csv([{"model": f"{start}x"}]).decode().split("\n", 1)[1].startswith(("'", "\"'"))
    assert rows_csv([{"model": "x"}]) == b"model\nx\n"


def test_an_apostrophe_is_told_from_the_one_in_front_of_a_formula() -> None:
    assert rows_csv([{"model": "'=x"}, {"model": "=x"}]) == b"model\n''=x\n'=x\n"
