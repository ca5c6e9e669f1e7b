"""A part of the leaderboard, its diagnostics apart, and large answers compressed."""

import gzip
import io
import sys
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from httpx import Client

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.arena
Ask = Callable[..., Any]
PATH = "/api/v1/leaderboard"


@pytest.fixture
def read(client: Client) -> Callable[..., Any]:
    def ask(**params: Any) -> Any:
        answer = client.get(PATH, params=params)
        assert answer.status_code == 200, answer.text
        return answer

    return ask


def test_the_first_models(read: Ask) -> None:
    whole, first = read().json(), read(limit=3).json()
    assert first.keys() == whole.keys()
    assert first["models"] == whole["models"][:3]
    assert read(limit=10_000).json()["models"] == whole["models"]
    assert read(limit=2, format="csv").text == "".join(read(format="csv").text.splitlines(keepends=True)[:3])


def test_some_fields(read: Ask) -> None:
    whole = read().json()
    short = read(fields="score, rank").json()
    assert list(short) == [name for name in whole if name != "diagnostics"]
    assert short["models"] == [{name: row[name] for name in ("model", "score", "rank")} for row in whole["models"]]
    assert read(fields="diagnostics").json()["diagnostics"] == whole["diagnostics"]
    beside = read(fields="rank", compare="m-elo").json()["models"][0]
    assert beside.keys() == {"model", "rank"}
    assert read(fields="rank,compared", compare="m-elo").json()["models"][0]["compared"].keys() == {"m-elo"}
    number = whole["snapshot"]["number"]
    assert read().json()["diagnostics"] == read(snapshot=number).json()["diagnostics"]


def test_some_columns_of_a_table(read: Ask) -> None:
    csv = pl.read_csv(read(format="csv", fields="score,model,rank").content)
    assert csv.columns == ["model", "score", "rank"]
    parquet = pl.read_parquet(io.BytesIO(read(format="parquet", fields="rank,compared", compare="m-elo").content))
    assert parquet.columns == ["model", "rank", "m_elo_rank", "m_elo_score"]
    assert pl.read_csv(read(format="csv", fields="rank", compare="m-elo").content).columns == ["model", "rank"]


def test_each_part_has_a_tag_of_its_own(client: Client, read: Ask) -> None:
    parts: list[dict[str, Any]] = [{}, {"limit": 3}, {"limit": 4}, {"fields": "rank"}, {"fields": "rank", "limit": 3}]
    tags = [read(**part).headers["etag"] for part in parts]
    assert len({*tags}) == len(parts)
    assert read(fields="rank,score").headers["etag"] == read(fields="score,rank,model").headers["etag"]
    assert client.get(PATH, params={"limit": 3}, headers={"If-None-Match": tags[1]}).status_code == 304


@pytest.mark.parametrize(
    ("params", "place"),
    [({"limit": "0"}, "/limit"), ({"fields": "rank,elo"}, "/fields"), ({"format": "arena-catalog"}, "/format")],
)
def test_no_such_part(client: Client, assert_problem: Ask, params: dict[str, str], place: str) -> None:
    problem = assert_problem(client.get(PATH, params=params), 422, "invalid")
    assert [one["pointer"] for one in problem["errors"]] == [place]


def test_the_catalog_has_a_path_of_its_own(client: Client) -> None:
    catalog = client.get(f"{PATH}/arena-catalog", params={"method": "m-elo"})
    assert "full" in catalog.json()
    unchanged = client.get(
        f"{PATH}/arena-catalog", params={"method": "m-elo"}, headers={"If-None-Match": catalog.headers["etag"]}
    )
    assert unchanged.status_code == 304


UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zstd": zstd.decompress}


ENCODINGS = {"gzip": "gzip", "zstd": "zstd", "gzip, br, ZSTD": "zstd", "gzip, zstd;q=0": "gzip", "br": None}


def test_large_answers_are_compressed(client: Client) -> None:
    for path in ("/api/v1/openapi.json", f"{PATH}?format=csv"):
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        for accepted, encoding in ENCODINGS.items():
            with client.stream("GET", path, headers={"Accept-Encoding": accepted}) as answer:
                raw = b"".join(answer.iter_raw())
            assert answer.headers.get("content-encoding") == encoding
            assert int(answer.headers["content-length"]) == len(raw)
            assert "accept-encoding" in answer.headers["vary"].lower()
            if encoding is None:
                assert raw == plain.content
                assert answer.headers.get("etag") == plain.headers.get("etag")
            else:
                assert len(raw) < len(plain.content) / 1.5
                assert UNPACK[encoding](raw) == plain.content
                assert answer.headers.get("etag", "W/").startswith("W/")


def test_small_answers_and_parquet_are_not(client: Client) -> None:
    for path in (f"{PATH}?limit=1&fields=rank", f"{PATH}?format=parquet"):
        answer = client.get(path, headers={"Accept-Encoding": "gzip, zstd"})
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers
