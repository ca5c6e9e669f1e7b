"""What annotators see about themselves, through a token that is bound to them."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from app.settings import Settings

Ask = Callable[..., Any]


@pytest.fixture
def token_of(ask: Ask) -> Callable[..., dict[str, str]]:
    """The header with a token bound to an annotator."""

    def make(annotator: str | None) -> dict[str, str]:
        body = {} if annotator is None else {"annotator": annotator}
        made = ask("POST", "/keys/tokens", scope="ingest", json=body)
        return {"Authorization": f"Bearer {made.json()['token']}"}

    return make


@pytest.fixture
def see(ask: Ask, token_of: Ask) -> Ask:
    """What an annotator is shown at a path below /annotators/me."""

    def get(annotator: str, path: str = "", **params: Any) -> Any:
        shown = ask(
            "GET",
            f"/annotators/me{path}",
            scope=None,
            headers=token_of(annotator),
            params={"annotator": annotator, **params},
        )
        assert shown.status_code == 200, shown.text
        return shown.json()

    return get


def test_before_the_first_vote(see: Ask) -> None:
    shown = see("nobody yet/é")
    assert (shown["standing"], shown["votes_needed"], shown["appeals"]) == ("pending", 51, [])
    assert shown["votes_summary"]["votes"] == 0
    assert see("nobody yet/é", "/votes")["items"] == []


def test_own_votes_and_no_others(ask: Ask, see: Ask, vote: Ask) -> None:
    for battle in ("b1", "b2", "b3"):
        vote(annotator="mine", battle_id=battle)
        vote(annotator="other", battle_id=battle)
    shown = see("mine", "/votes", limit=2)
    assert [one["battle_id"] for one in shown["items"]] == ["b3", "b2"]
    assert not {"chance", "metadata", "annotator"} & shown["items"][0].keys()
    rest = see("mine", "/votes", limit=2, cursor=shown["next_cursor"])
    assert ([one["battle_id"] for one in rest["items"]], rest["next_cursor"]) == (["b1"], None)
    ask("POST", f"/votes/{rest['items'][0]['id']}/retract", json={"reason": "a misclick"})
    assert see("mine", "/votes")["items"][2]["retracted"]
    summary = see("mine")
    assert (summary["votes_summary"]["votes"], summary["votes_summary"]["retracted"]) == (3, 1)
    assert summary["votes_needed"] == 51 - 2


def test_standing_and_what_became_of_appeals(ask: Ask, see: Ask, crowd: list[str], refit: Ask) -> None:
    refit()
    flipped = next(key for key in crowd if key.startswith("flip"))
    assert see(flipped)["standing"] == "flagged"
    assert see("honest 0")["standing"] == "active"
    assert see("honest 0")["votes_needed"] == 0
    for note in ("look again", "please"):
        ask("POST", f"/annotators/{flipped}/appeals", scope="ingest", json={"note": note})
    assert [(one["note"], one["open"], one["outcome"]) for one in see(flipped)["appeals"]] == [
        ("please", True, None),
        ("look again", True, None),
    ]
    for action in ("trust", "exclude"):
        decided = ask(
            "POST", f"/annotators/{flipped}/decisions", scope="review", json={"action": action, "reason": "secret"}
        )
        assert decided.status_code == 201
    shown = see(flipped)
    assert [(one["open"], one["outcome"]) for one in shown["appeals"]] == [(False, "trust")] * 2
    assert shown["appeals"][0]["decided_at"] is not None
    assert shown["standing"] == "excluded"
    assert "secret" not in str(shown)
    assert see("honest 0")["appeals"] == []


def test_only_the_one_that_the_token_is_bound_to(ask: Ask, assert_problem: Ask, token_of: Ask, vote: Ask) -> None:
    vote(annotator="other")
    other = ask("GET", "/annotators", params={"annotator": "other"}).json()["items"][0]
    headers = token_of("mine")
    for path in ("/annotators/me", "/annotators/me/votes"):
        for reference in ("other", other["id"], "Mine", "\x00"):
            refused = ask("GET", path, scope=None, headers=headers, params={"annotator": reference})
            assert_problem(refused, 403, "foreign-annotator")
        assert_problem(ask("GET", path, scope=None, headers=headers), 422, "invalid")
        assert_problem(
            ask("GET", path, scope=None, headers=token_of(None), params={"annotator": "mine"}), 403, "scope-missing"
        )


def test_a_token_for_the_id_of_another_shows_nothing(ask: Ask, see: Ask, vote: Ask) -> None:
    vote(annotator="other")
    other = ask("GET", "/annotators", params={"annotator": "other"}).json()["items"][0]
    assert see(other["id"])["votes_summary"]["votes"] == 0
    assert see(str(uuid4()), "/votes")["items"] == []


class TestUnderPseudonyms:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"pseudonym_key": SecretStr("k" * 40)})

    def test_by_the_raw_key_alone(self, ask: Ask, see: Ask, vote: Ask) -> None:
        vote(annotator="mine")
        stored = ask("GET", "/annotators", params={"annotator": "mine"}).json()["items"][0]["annotator"]
        assert stored != "mine"
        assert see("mine")["votes_summary"]["votes"] == 1
        assert see(stored)["votes_summary"]["votes"] == 0
