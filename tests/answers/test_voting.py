"""Battles whose answers lie here, by keys and by those who vote: links, the open door, limits, undoing."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from httpx import Client
from sqlalchemy import text

from app.answers.pool import OfferedPrompt, PooledPrompt, sample_prompts
from app.battles.offering import BattleReceipt, Submission
from app.battles.prompts import NothingLeftError, PairTakenError
from app.battles.queue import BattleQueue
from app.battles.schemas import NewBattle
from app.database.engine import Database
from app.naming.known_names import KnownNames
from app.votes.prompts import prompt_key
from tests.fixtures.voting import MODELS, PROMPTS, say

Ask = Callable[..., Any]
AssertProblem = Callable[..., dict[str, Any]]
SEE_ALL_BUT = text(
    """
    INSERT INTO battles (id, annotator_id, left_id, right_id, candidate_set_id, drawn_by, propensity, policy_version,
                         prompt_id, expires_at)
    SELECT gen_random_uuid(), b.annotator_id, b.left_id, b.right_id, b.candidate_set_id, b.drawn_by, b.propensity,
           b.policy_version, p.id, b.expires_at
    FROM battles AS b, prompts AS p WHERE b.id = :first AND p.text <> :one AND p.id <> b.prompt_id
    """
)
PAIRS = {frozenset(pair) for pair in (("ash", "birch"), ("ash", "cedar"), ("birch", "cedar"))}


@pytest.mark.usefixtures("pool")
def test_a_key_gets_a_prompt_and_both_answers(ask: Ask, assert_problem: AssertProblem) -> None:
    body = {"annotator": "ann", "answers": True}
    shown = Counter[tuple[str, frozenset[str]]]()
    first = set()
    for _ in range(6):
        battle = ask("POST", "/battles", scope="ingest", json=body).json()
        assert battle["left_answer"] == say(battle["left"], battle["prompt"])
        assert battle["right_answer"] == say(battle["right"], battle["prompt"])
        shown[battle["prompt"], frozenset((battle["left"], battle["right"]))] += 1
        first.add(battle["prompt"]) if len(shown) <= 2 else None
    assert shown == Counter(product(PROMPTS, PAIRS)), "each prompt with each pair once, and no model without answers"
    assert first == set(PROMPTS), "what was seen least comes first"
    assert_problem(ask("POST", "/battles", scope="ingest", json=body), 409, "nothing-left")
    listed = ask("GET", "/battles").json()["items"]
    assert {tuple(one["tags"]) for one in listed} == {("cO", "en"), ("cT", "en")}
    assert {one["candidates"] for one in listed} == {3}
    assert {round(one["propensity"], 9) for one in listed} == {0.333333333, 0.5, 1.0}
    exposed = ask("GET", "/exposure").json()["prompts"]
    assert {(one["prompt"], one["category"], one["offered"]) for one in exposed} == {
        ("One?", "cO", 3),
        ("Two?", "cT", 3),
    }
    only = ask("POST", "/battles", scope="ingest", json={**body, "annotator": "bob", "category": "cT"}).json()
    assert only["prompt"] == "Two?"
    lone = {**body, "candidates": ["ash", "silent"]}
    assert_problem(ask("POST", "/battles", scope="ingest", json=lone), 409, "nothing-left")
    assert_problem(ask("POST", "/battles", scope="ingest", json={"annotator": "x", "category": "cT"}), 422, "invalid")
    assert "prompt" not in ask("POST", "/battles", scope="ingest", json={"annotator": "ann"}).json()


@pytest.mark.usefixtures("pool")
def test_the_browser_learns_the_models_by_voting_alone(
    ask: Ask, invite: Callable[..., dict[str, Any]], draw: Ask, cast: Ask, database: Database
) -> None:
    link = invite(annotator="ada", category="cO")
    assert (link["state"], link["annotator"], link["votes"]) == ("open", "ada", 0)
    drawn = draw(link["token"])
    battle = drawn.json()
    assert drawn.status_code == 201
    assert battle.keys() == {"battle_id", "token", "expires_at", "prompt", "left_answer", "right_answer"}
    assert not any(model in drawn.text for model in MODELS)
    assert battle["prompt"] == "<p>One?</p>\n"
    revealed = cast(battle).json()
    for side in ("left", "right"):
        source = say(revealed[side], "One?").removeprefix("**").replace("**", "</strong>")
        assert battle[f"{side}_answer"] == f"<p><strong>{source}</p>\n"
    with database.read() as conn:
        tags, features, prompt = conn.execute(text("SELECT tags, features, prompt FROM votes")).one()
    assert (tags, prompt) == (["cO", "en"], prompt_key("One?"))
    assert features == {"length": [3, 3], "headers": [0, 0], "lists": [0, 0], "bold": [1, 1]}
    assert ask("GET", "/invitations").json()["items"][0]["votes"] == 1
    assert ask("GET", "/annotators/ada", scope="review").json()["votes_summary"]["votes"] == 1


@pytest.mark.usefixtures("pool")
def test_an_ingest_token_that_is_bound_to_its_annotator_draws_too(
    ask: Ask, draw: Ask, assert_problem: AssertProblem
) -> None:
    bound = ask("POST", "/keys/tokens", scope="ingest", json={"annotator": "bob"}).json()["token"]
    assert "left" not in draw(bound, annotator="bob").json()
    assert_problem(draw(bound, annotator="eve"), 403, "foreign-annotator")
    assert_problem(draw(bound), 403, "foreign-annotator")
    free = ask("POST", "/keys/tokens", scope="ingest", json={}).json()["token"]
    assert_problem(draw(free, annotator="bob"), 403, "scope-missing")
    assert_problem(ask("POST", "/battles", scope="ingest", json={}), 422, "invalid")
    for chosen in ({"candidates": ["ash", "birch"]}, {"tags": ["x"]}, {"answers": True, "category": "cO"}):
        error = assert_problem(draw(bound, annotator="bob", **chosen), 422, "invalid")["errors"][0]
        assert error["pointer"].strip("/") in chosen


@pytest.mark.usefixtures("pool")
def test_draws_at_once_do_not_add_to_the_votes_of_a_link(
    invite: Callable[..., dict[str, Any]], draw: Ask, cast: Ask
) -> None:
    token = invite(max_votes=1)["token"]
    with ThreadPoolExecutor(6) as many:
        drawn = [one.json() for one in many.map(draw, [token] * 6) if one.is_success]
    assert len(drawn) > 1
    assert sorted(cast(battle).status_code for battle in drawn) == [201] + [410] * (len(drawn) - 1)


@pytest.mark.usefixtures("pool")
def test_a_link_has_a_number_of_votes_and_an_end(
    ask: Ask,
    invite: Callable[..., dict[str, Any]],
    draw: Ask,
    cast: Ask,
    assert_problem: AssertProblem,
    database: Database,
) -> None:
    link = invite(max_votes=2)
    assert link["annotator"].startswith("invited-")
    ahead = [draw(link["token"]).json() for _ in range(4)]
    assert [battle["votes_left"] for battle in ahead] == [2] * 4
    results = [cast(battle).status_code for battle in ahead]
    assert results == [410, 410, 201, 201], "battles that were drawn ahead do not add to the votes"
    assert_problem(draw(link["token"]), 410, "votes-used-up")
    assert_problem(draw(link["token"], annotator="eve"), 422, "invalid")
    other = invite()
    battle = draw(other["token"]).json()
    assert ask("DELETE", f"/invitations/{other['id']}").json()["state"] == "revoked"
    assert cast(battle).status_code == 410
    assert ask("DELETE", f"/invitations/{other['id']}").json()["state"] == "revoked"
    late = invite(expires_at="2100-01-01T00:00:00Z")
    with database.begin() as conn:
        conn.execute(text("UPDATE invitations SET expires_at = now() WHERE revoked_at IS NULL"))
    assert_problem(draw(late["token"]), 401, "not-invited")
    flipped = late["token"][:-1] + ("A" if late["token"][-1] != "A" else "B")
    for forged in ("sav_", "sav_x", flipped, late["token"].removeprefix("sav_")):
        assert_problem(draw(forged), 401, "not-authenticated")
    assert_problem(ask("POST", "/invitations", json={"expires_at": "2020-01-01T00:00:00Z"}), 422, "invalid")
    assert_problem(ask("POST", "/invitations", json={"everyone": True, "annotator": "x"}), 422, "invalid")
    assert_problem(ask("DELETE", "/invitations/00000000-0000-0000-0000-000000000000"), 404, "not-found")
    for method, path in (("POST", ""), ("GET", ""), ("DELETE", f"/{late['id']}")):
        assert_problem(ask(method, f"/invitations{path}", scope=None, json={}), 401, "not-authenticated")
        assert_problem(ask(method, f"/invitations{path}", scope="review", json={}), 403, "scope-missing")
    acts = [one["action"] for one in ask("GET", "/audit?action=invitation").json()["items"]]
    assert Counter(acts) == {"invitation.create": 3, "invitation.revoke": 1}


def test_a_voters_token_does_nothing_else(client: Client, invite: Callable[..., dict[str, Any]]) -> None:
    shown = {"Authorization": f"Bearer {invite()['token']}"}
    vote = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "x"}
    for method, path, body in (
        ("POST", "/votes", vote),
        ("POST", "/votes/batch", {"votes": [vote]}),
        ("GET", "/annotators/me?annotator=x", None),
        ("GET", "/prompts", None),
        ("POST", "/keys/tokens", {}),
        ("GET", "/invitations", None),
    ):
        assert client.request(method, f"/api/v1{path}", json=body, headers=shown).status_code == 401, path


@pytest.mark.usefixtures("pool")
def test_votes_are_sent_again_and_counted_once(invite: Callable[..., dict[str, Any]], draw: Ask, cast: Ask) -> None:
    battle = draw(invite()["token"]).json()
    answers = [cast(battle) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert len({answer.json()["id"] for answer in answers}) == 1


@pytest.mark.usefixtures("pool")
def test_an_erased_annotator_has_no_link(
    ask: Ask, invite: Callable[..., dict[str, Any]], draw: Ask, assert_problem: AssertProblem
) -> None:
    link = invite(annotator="ada@example.org")
    battle = draw(link["token"])
    assert battle.status_code == 201
    assert ask("POST", "/annotators/ada@example.org/erase", json={"reason": "asked for it"}).status_code == 200
    (shown,) = ask("GET", "/invitations").json()["items"]
    assert (shown["state"], "ada" in shown["annotator"]) == ("revoked", False)
    late = invite()
    assert draw(late["token"]).status_code == 201, "others go on"
    assert "ada@example.org" not in ask("GET", "/audit").text


def test_an_order_of_ones_own_after_twenty_votes(
    client: Client, ask: Ask, invite: Callable[..., dict[str, Any]], draw: Ask, cast: Ask, assert_problem: AssertProblem
) -> None:
    models = {"ash": 3, "birch": 2, "cedar": 1}
    given = [{"prompt": str(p), "model": m, "answer": f"{rank}"} for p in range(7) for m, rank in models.items()]
    ask("POST", "/answers", json={"answers": given})
    token = invite()["token"]

    def own() -> Any:
        return client.get("/api/v1/annotators/me/order", headers={"Authorization": f"Bearer {token}"}).json()

    assert own() == {"votes": 0, "useful": 0, "votes_needed": 20, "models": []}
    for _ in range(20):
        battle = draw(token).json()
        cast(battle, "left" if battle["left_answer"] > battle["right_answer"] else "right")
    order = own()
    assert (order["votes"], order["votes_needed"], [one["model"] for one in order["models"]]) == (20, 0, list(models))
    assert sum(one["votes"] for one in order["models"]) == 40
    assert all(one["lower"] < one["score"] < one["upper"] for one in order["models"])
    assert sum(one["score"] for one in order["models"]) == pytest.approx(3000)
    bound = ask("POST", "/keys/tokens", scope="ingest", json={"annotator": "bob"}).json()["token"]
    for query, status in (("", 422), ("?annotator=bob", 200), ("?annotator=eve", 403)):
        shown = {"Authorization": f"Bearer {bound}"}
        assert client.get(f"/api/v1/annotators/me/order{query}", headers=shown).status_code == status
    assert_problem(ask("GET", "/annotators/me/order", scope="admin"), 403, "scope-missing")
    assert_problem(ask("GET", "/annotators/me/order", scope=None), 401, "not-authenticated")


def test_two_processes_do_not_offer_the_same(database: Database, ask: Ask) -> None:
    given = [{"prompt": str(p), "model": m, "answer": "x"} for p in range(2) for m in ("a", "b")]
    ask("POST", "/answers", json={"answers": given})

    async def draw_at_once() -> list[Any]:
        queues = [BattleQueue(database, token_seconds=60, queue_size=9, names=KnownNames(database)) for _ in range(4)]
        asked = (queue.submit(Submission(NewBattle(annotator="ann", answers=True), None)) for queue in queues)
        results = await asyncio.gather(*asked, return_exceptions=True)
        for queue in queues:
            await queue.close()
        return results

    for _ in range(3):  # until both prompts were shown
        results = asyncio.run(draw_at_once())
        assert all(isinstance(one, BattleReceipt | PairTakenError | NothingLeftError) for one in results), results
    with database.read() as conn:
        shown = Counter(conn.execute(text("SELECT prompt_id FROM battles")).scalars())
    assert list(shown.values()) == [1, 1]


def test_of_two_doors_that_open_at_once_one_stays_open(ask: Ask, database: Database) -> None:
    with ThreadPoolExecutor(8) as many:
        assert {
            one.status_code
            for one in many.map(lambda _: ask("POST", "/invitations", json={"everyone": True}), range(8))
        } == {201}
    states = Counter(one["state"] for one in ask("GET", "/invitations").json()["items"])
    assert states == {"open": 1, "revoked": 7}


def test_what_was_seen_of_many_prompts_is_read_in_part(database: Database, ask: Ask) -> None:
    """An annotator who has seen all but one of many prompts gets it, and then nothing."""
    number = 300
    given = [{"prompt": str(p), "model": m, "answer": "x"} for p in range(number) for m in ("a", "b")]
    ask("POST", "/answers", json={"answers": given})
    body = {"annotator": "ann", "answers": True}
    first = ask("POST", "/battles", scope="ingest", json=body).json()
    with database.begin() as conn:
        conn.execute(SEE_ALL_BUT, {"one": "77", "first": first["battle_id"]})
    if first["prompt"] != "77":
        assert ask("POST", "/battles", scope="ingest", json=body).json()["prompt"] == "77"
    assert ask("POST", "/battles", scope="ingest", json=body).status_code == 409
    offered = [OfferedPrompt(PooledPrompt(p, {}, {}), (1, 2)) for p in range(number)]
    assert len(sample_prompts(np.random.default_rng(0), offered)) <= 8


@pytest.mark.usefixtures("pool")
def test_an_attackers_walk(
    client: Client,
    ask: Ask,
    invite: Callable[..., dict[str, Any]],
    draw: Ask,
    cast: Ask,
    assert_problem: AssertProblem,
    database: Database,
) -> None:
    """Links and tokens that are forged, another's, used, revoked or ended get nothing and change nothing."""
    mine, other, revoked, ended = (invite(annotator=one, max_votes=1) for one in ("eve", "ada", "bob", "cal"))
    open_of = {one["annotator"]: draw(one["token"]).json() for one in (mine, other, revoked, ended)}
    ask("DELETE", f"/invitations/{revoked['id']}")
    with database.begin() as conn:
        conn.execute(text("UPDATE invitations SET expires_at = now() WHERE id = :id"), {"id": ended["id"]})
        conn.execute(text("UPDATE battles SET expires_at = now() WHERE invitation_id = :id"), {"id": ended["id"]})
    # a battle's token is no link, a link no battle's token, and an id that is signed for one is nothing to the other
    for forged in (open_of["eve"]["token"], f"sav_{open_of['eve']['token']}", f"sav_{other['id']}", "sav_" + "A" * 44):
        assert_problem(draw(forged), 401, "not-authenticated")
    link = mine["token"].removeprefix("sav_")
    for forged in (mine["token"], link, open_of["ada"]["battle_id"], "x" * 10_000, ""):
        assert cast({"token": forged}).status_code in (401, 422)
    for late in ("bob", "cal"):
        assert cast(open_of[late]).status_code == 410
    for token in (revoked["token"], ended["token"]):
        assert_problem(draw(token), 401, "not-invited")
    assert_problem(draw(mine["token"], annotator="ada"), 422, "invalid")
    # once used, the link and the battle are used up, whatever is taken back or sent at once
    with ThreadPoolExecutor(6) as many:
        hidden = partial(cast, open_of["eve"], reveal=False)
        statuses = [one.result().status_code for one in [many.submit(hidden) for _ in range(6)]]
    assert sorted(statuses) == [200] * 5 + [201]
    undone = client.post(f"/api/v1/battles/{open_of['eve']['battle_id']}/undo", json={"token": open_of["eve"]["token"]})
    assert undone.status_code == 200
    assert_problem(draw(mine["token"]), 410, "votes-used-up")
    taken = {"token": open_of["eve"]["token"], "reason": "skip"}
    assert_problem(client.post(f"/api/v1/battles/{open_of['ada']['battle_id']}/skip", json=taken), 422, "forged-token")
    assert cast(open_of["ada"]).status_code == 201, "the one that nothing is wrong with"
    with database.read() as conn:
        keys = conn.execute(text("SELECT a.key FROM votes AS v JOIN annotators AS a ON a.id = v.annotator_id"))
        assert sorted(keys.scalars()) == ["ada", "eve"]


@pytest.mark.usefixtures("pool")
def test_votes_on_a_prompt_count_in_the_categories_of_the_policy(
    ask: Ask, cast: Callable[..., Any], store_policy: Callable[..., None]
) -> None:
    store_policy(dimensions={"category": ["cO", "cX"], "language": ["en"]})
    body = {"annotator": "ann", "answers": True, "tags": ["mine"]}
    for _ in range(6):
        assert cast(ask("POST", "/battles", scope="ingest", json=body).json()).status_code == 201
    found = {tuple(one["tags"]) for one in ask("GET", "/battles").json()["items"]}
    assert found == {("mine", "cO", "en", "category=cO", "language=en"), ("mine", "cT", "en", "language=en")}
