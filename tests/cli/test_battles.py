import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from httpx import Client
from typer.testing import Result

RunCli = Callable[..., Result]


@pytest.mark.usefixtures("on_database")
def test_battles_are_listed_and_shown(client: Client, keys: dict[str, str], run_cli: RunCli) -> None:
    admin, ingest = ({"Authorization": f"Bearer {keys[scope]}"} for scope in ("admin", "ingest"))
    for name in ("ant", "[red]dog"):
        assert client.post("/api/v1/models", json={"name": name}, headers=admin).status_code == 201
    drawn = [
        client.post("/api/v1/battles", json={"annotator": key}, headers=ingest).json() for key in ("ann", "ann", "bob")
    ]
    client.post(f"/api/v1/battles/{drawn[0]['battle_id']}/skip", json={"reason": "failed"}, headers=ingest)
    listed = json.loads(run_cli("battles", "list", "--annotator", "ann", "--format", "json").stdout)["battles"]
    assert [one["battle_id"] for one in listed] == [drawn[1]["battle_id"], drawn[0]["battle_id"]]
    table = run_cli("battles", "list", "--state", "skipped").stdout
    assert drawn[0]["battle_id"] in table
    assert "failed" in table
    assert drawn[1]["battle_id"] not in table
    shown = run_cli("battles", "show", drawn[2]["battle_id"])
    assert "[red]dog, ant" in shown.stdout, "the names of the candidates; names are no markup"
    assert drawn[2]["token"] not in shown.stdout
    assert json.loads(run_cli("battles", "show", drawn[2]["battle_id"], "--format", "json").stdout)["state"] == "open"
    assert len(run_cli("battles", "list", "--limit", "1").stdout.splitlines()) == 2  # its head, and the newest
    unknown = run_cli("battles", "list", "--annotator", "eve")
    assert (unknown.exit_code, "there is no annotator" in unknown.stderr) == (1, True)


@pytest.mark.usefixtures("on_database")
def test_exports_say_which_votes_are_sealed_and_how_likely_their_pairs_were(
    client: Client,
    keys: dict[str, str],
    run_cli: RunCli,
    tmp_path: Path,
) -> None:
    ingest = {"Authorization": f"Bearer {keys['ingest']}"}
    own = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "ann", "battle_id": "17"}
    assert client.post("/api/v1/votes", json=own, headers=ingest).status_code == 201
    client.post("/api/v1/votes", json={**own, "model_b": "c", "battle_id": "18"}, headers=ingest)
    drawn = client.post("/api/v1/battles", json={"annotator": "ann"}, headers=ingest).json()
    # A vote under the id of a sealed battle is still not sealed, and does not keep the token from counting.
    squatter = {**own, "battle_id": drawn["battle_id"], "winner": "model_b"}
    assert client.post("/api/v1/votes", json=squatter, headers=ingest).status_code == 201
    assert client.post("/api/v1/votes", json={"token": drawn["token"], "winner": "left"}).status_code == 201
    file = tmp_path / "votes.csv"
    assert run_cli("export", "votes", "--output", file).exit_code == 0
    rows = pl.read_csv(file)
    assert rows["battle_id"].to_list() == ["17", "18", drawn["battle_id"], drawn["battle_id"]]
    assert rows["sealed"].cast(pl.String).to_list() == ["false", "false", "false", "true"]
    assert rows["propensity"].to_list() == [None, None, None, pytest.approx(1 / 3)]
    assert rows["winner"][3] == "model_a"
    retraction = {"target": "battle", "id": drawn["battle_id"], "reason": "a test"}
    review = {"Authorization": f"Bearer {keys['review']}"}
    assert client.post("/api/v1/retractions", json=retraction, headers=review).json()["votes"] == 2
    again = client.post("/api/v1/votes", json={"token": drawn["token"], "winner": "right"})
    assert again.status_code == 409, "its models are known"
