from collections.abc import Callable
from typing import Any, get_args

import pytest
from httpx import Client, Response

from app.guard.lanes import Lane
from app.snapshots.schemas import LeaderboardMethod


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths for which an answer had to be made."""
    paths: list[str] = []
    take = Lane.take

    def note(self: Lane, scope: Any, answer: Any, work: Any) -> Any:
        paths.append(scope["path"])
        return take(self, scope, answer, work)

    monkeypatch.setattr(Lane, "take", note)
    return paths


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/v1/leaderboard", "/api/v1/snapshots/1"])
def test_an_unknown_parameter_is_refused(client: Client, assert_problem: Callable[..., Any], path: str) -> None:
    problem = assert_problem(client.get(path, params={"colour": "red"}), 422, "invalid")

    (error,) = problem["errors"]
    assert error["pointer"] == "/colour"
    assert error["detail"].startswith("is not a parameter of this endpoint")


def test_the_nearest_parameter_is_named(client: Client, assert_problem: Callable[..., Any]) -> None:
    response: Response = client.get("/api/v1/leaderboard?methd=m-elo&tag=code&formt=csv")

    problem = assert_problem(response, 422, "invalid")

    assert [(error["pointer"], error["detail"].partition("; ")[2]) for error in problem["errors"]] == [
        ("/methd", "did you mean method?"),
        ("/formt", "did you mean format?"),
    ]
    assert "/methd" in problem["detail"]


@pytest.mark.parametrize("compare", ["foo", "m-elo,foo", "m-elo,", ""])
def test_the_methods_to_compare_are_named_where_one_is_unknown(
    client: Client, assert_problem: Callable[..., Any], compare: str
) -> None:
    problem = assert_problem(client.get("/api/v1/leaderboard", params={"compare": compare}), 422, "invalid")

    methods = ", ".join(get_args(LeaderboardMethod))
    assert problem["detail"] == f"/compare: must be one or more of {methods}, separated by commas"


def test_parameters_of_dependencies_are_known(
    client: Client, assert_problem: Callable[..., Any], keys: dict[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {keys['ingest']}", "Content-Type": "text/csv"}

    known = client.post("/api/v1/imports?dry_run=true", content=b"a,b\n", headers=headers)
    unknown = client.post("/api/v1/imports?dryrun=true", content=b"a,b\n", headers=headers)

    assert known.status_code == 202
    assert "did you mean dry_run?" in assert_problem(unknown, 422, "invalid")["detail"]


@pytest.mark.parametrize("path", ["/api/v1/votes", "/api/v1/votes/batch"])
def test_votes_take_no_parameters(client: Client, assert_problem: Callable[..., Any], path: str) -> None:
    problem = assert_problem(client.post(path, params={"dry_run": "true"}, json={}), 422, "invalid")

    assert problem["detail"] == "/dry_run: is not a parameter of this endpoint, which has none"


def test_unknown_parameters_of_a_post_are_refused(
    client: Client, assert_problem: Callable[..., Any], keys: dict[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {keys['admin']}"}

    refused = client.post("/api/v1/refits?accept_exclusions=true", headers=headers)

    assert_problem(refused, 422, "invalid")
    assert client.get("/api/v1/refits", headers=headers).json()["items"] == []


PAGES = ("/", "/embed", "/categories", "/card.png", "/card.svg", "/compare", "/matchups", "/history", "/models/ant")


@pytest.mark.parametrize("path", PAGES)
def test_pages_leave_out_what_they_do_not_know(client: Client, three: int, made: list[str], path: str) -> None:
    usual = client.get(path)
    answers = [client.get(path, params={"utm_source": "news", "v": number}) for number in range(3)]

    assert {answer.status_code for answer in (usual, *answers)} == {200}
    assert made == [path], "an answer was made for a parameter that is not known"


def test_one_answer_is_made_for_the_same_parameters(client: Client, three: int, made: list[str]) -> None:
    for query in ("tag=&rows=5", "rows=5&tag=", "rows=4&rows=5&tag=", "v=1&tag=x&rows=5&tag="):
        assert client.get(f"/?{query}").status_code == 200
    assert len(made) == 1
    for query in ("model=ant&model=bee", "model=bee&model=ant"):  # their order is that of the table
        assert client.get(f"/matchups?{query}").status_code == 200
    assert len(made) == 3


def test_a_picture_has_no_parameters_of_the_table(client: Client, three: int, made: list[str]) -> None:
    for query in ("", "?q=a", "?rows=7&sort=votes", "?order=up"):
        assert client.get(f"/card.svg{query}").status_code == 200
    assert made == ["/card.svg"]


def test_unknown_parameters_of_a_public_read_cost_no_turn(client: Client, three: int, made: list[str]) -> None:
    assert client.get("/api/v1/leaderboard?v=1").status_code == 422
    assert made == []
