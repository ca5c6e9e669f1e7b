"""The reviewer's pages over HTTP, as a browser without JavaScript has them."""

from collections.abc import Callable
from typing import Any

import pytest

from app.errors import StableArenaError
from app.refits.load import NotReproducibleError
from app.review.impact.service import ImpactBusyError, Impacts
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page, text_of

Ask = Callable[..., Any]


@pytest.fixture
def reviewer(sign_in: SignIn) -> Visitor:
    return sign_in("review")


@pytest.fixture
def published(crowd: list[str], refit: Ask) -> list[str]:
    """12 honest annotators and 2 who vote against the truth, after a refit; returns their keys."""
    refit()
    return crowd


def ids(ask: Ask) -> dict[str, str]:
    """Return each annotator's id, by key."""
    return {one["annotator"]: one["id"] for one in ask("GET", "/annotators").json()["items"]}


def decide(visitor: Visitor, address: str, action: str, reason: str = "a test") -> Any:
    page = visitor.page(address)
    return visitor.submit(page, f"{address.partition('?')[0]}/decisions", action=action, reason=reason)


def test_without_a_leaderboard_the_pages_say_what_comes_next(reviewer: Visitor, ask: Ask, gather: Ask) -> None:
    for address, words in (
        ("/console/reviews", "Flags come with the first leaderboard"),
        ("/console/appeals", "No appeal waits"),
        ("/console/annotators", "Annotators appear with their first vote"),
    ):
        assert words in reviewer.page(address).text(".//div[@class='empty']")
    gather(honest=2)
    annotator = next(iter(ids(ask).values()))
    page = reviewer.page(f"/console/annotators/{annotator}")
    assert "no leaderboard yet" in page.text(".//main")
    assert "Known after the first refit" in page.text(".//main")
    impact = reviewer.get(f"/console/annotators/{annotator}/impact")
    assert (impact.status_code, Page(impact).text(".//h1")) == (404, "No leaderboard has been published yet")


def test_the_queue_has_the_strongest_reason_first(reviewer: Visitor, ask: Ask, published: list[str]) -> None:
    ask("POST", "/annotators/flip 12/appeals", scope="ingest", json={"note": "I <b>disagree</b>"})
    page = reviewer.page("/console/reviews")
    queue = ask("GET", "/reviews").json()["items"]
    assert [text_of(link) for link in page.all(".//a[@data-row]")] == [one["annotator"] for one in queue]
    first = page.all(".//tbody/tr")[0]
    assert queue[0]["evidence"]["words"][0] in text_of(first)
    assert "2 annotators wait" in page.text(".//p[@class='lead']")
    assert "1 appeal waits" in page.text(".//p[@class='lead']")
    appeals = reviewer.page("/console/appeals")
    assert "I <b>disagree</b>" in appeals.text(".//tbody")
    assert page.all(".//a[@data-row]")[0].get("href") == f"/console/annotators/{queue[0]['id']}?queue=1"


def queue_of(ask: Ask) -> list[Any]:
    found: list[Any] = ask("GET", "/reviews").json()["items"]
    return found


def test_a_case_shows_the_evidence_in_words_and_pictures(
    reviewer: Visitor, ask: Ask, published: list[str], refit: Ask
) -> None:
    refit()
    found, address = ask("GET", "/annotators/flip 12").json(), f"/console/annotators/{ids(ask)['flip 12']}"
    page = reviewer.page(f"{address}?queue=1")
    assert page.text(".//h1") == "flip 12 flagged"
    case = found["evidence"]
    diagnosis, *others = next(one for one in queue_of(ask) if one["annotator"] == "flip 12")["evidence"]["words"]
    assert page.text(".//p[@class='lead diagnosis']") == diagnosis
    assert f"explains {100 * case['laboratory']['findings'][0]['explains']:.0f} % of the votes" in diagnosis
    folded = page.texts(".//details[@class='more']/ul/li")
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in folded] == [
        *others,
        *case["summary"][1 + len(others) :],
    ]
    chart = page.one(".//svg[@role='img']")
    assert "snapshot 2" in (chart.get("aria-label") or "")
    headings = page.texts(".//h2")
    for heading in ("Agreement", "Sides and ties", "Model by model", "The most surprising votes", "Pace", "Decide"):
        assert heading in headings
    assert len(page.all(".//details[@class='vote']")) == len(case["surprising"])
    assert case["surprising"][0]["id"] in text_of(page.all(".//details[@class='vote']")[0])
    models = page.one(".//section[@aria-labelledby='models']").findall(".//tbody/tr")
    assert [text_of(row).startswith(one["model"]) for row, one in zip(models, case["models"], strict=True)] == [
        True
    ] * 6
    queue = ask("GET", "/reviews").json()["items"]
    first = reviewer.page(f"/console/annotators/{queue[0]['id']}?queue=1")
    assert f"Next: {queue[1]['annotator']}" in first.text(".//div[@class='case-top']/p")
    honest = reviewer.page(f"/console/annotators/{ids(ask)['honest 3']}")
    assert honest.texts(".//input[@name='action']/../span/strong") == ["Exclude", "Trust", "Reinstate"]


def test_the_impact_is_a_page_too(reviewer: Visitor, ask: Ask, published: list[str]) -> None:
    address = f"/console/annotators/{ids(ask)['flip 12']}"
    asked = next(element for element in reviewer.page(address).root.iter() if element.get("hx-trigger") == "load")
    assert (asked.get("hx-get"), asked.get("hx-select")) == (f"{address}/impact", "#impact")
    page = reviewer.page(f"{address}/impact")
    impact = ask("GET", "/annotators/flip 12/impact").json()
    assert impact["summary"][0] in page.text(".//section[@id='impact']")
    assert page.all(".//section[@id='impact']//tbody/tr")


def test_an_impact_that_cannot_be_computed_now_says_so_in_its_place(
    reviewer: Visitor, ask: Ask, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, part = f"/console/annotators/{ids(ask)['flip 12']}/impact", {"HX-Request": "true"}
    for error, words, comes_back in (
        (ImpactBusyError("busy"), "this one follows", True),
        (NotReproducibleError("the snapshot's votes are not known"), "The snapshot's votes are not known.", False),
    ):

        def refuse(*_: object, failure: StableArenaError = error, **__: object) -> None:
            raise failure

        monkeypatch.setattr(Impacts, "impact", refuse)
        section = Page(reviewer.get(address, headers=part)).one(".//section[@id='impact']")
        assert words in text_of(section)
        assert (section.get("hx-get") == address) is comes_back
        assert reviewer.get(address).status_code in (409, 503), "a page of its own has the error's status"


def test_a_decision_its_refit_and_its_undo(reviewer: Visitor, ask: Ask, published: list[str], refit: Ask) -> None:
    address = f"/console/annotators/{ids(ask)['flip 12']}"
    other = f"/console/annotators/{ids(ask)['flip 13']}?queue=1&sort=name"
    answer = decide(reviewer, f"{address}?queue=1&sort=name", "exclude", "votes against the ranking")
    assert (answer.status_code, answer.headers["location"]) == (303, other), "the next case of the queue"
    page = reviewer.page(other)
    assert "flip 12 is excluded: the votes do not count, from the next refit on." in page.text(".//div[@role='status']")
    assert "flip 12" not in reviewer.page("/console/reviews").texts(".//a[@data-row]")
    undo = page.one(".//div[@role='status']/form").get("action") or ""
    decided = ask("GET", "/annotators/flip 12").json()["decisions"][0]
    assert (decided["decided_by"], decided["reason"]) == ("review key", "votes against the ranking")
    assert ask("GET", "/audit").json()["items"][0]["action"] == "decision.exclude"
    refit()
    assert ask("GET", "/annotators/flip 12").json()["shadow_ability"] is not None, "outside the fit"
    assert reviewer.submit(page, undo).headers["location"] == address
    assert "taken back" in reviewer.page(address).text(".//div[@role='status']")
    assert ask("GET", "/annotators/flip 12").json()["override"] is None
    late = reviewer.submit(page, undo)
    assert (late.status_code, Page(late).text(".//h1")) == (409, "Conflict with the record")
    assert decide(reviewer, other, "trust").headers["location"] == "/console/reviews", "the last case"


def test_undo_brings_back_what_held_before(reviewer: Visitor, ask: Ask, published: list[str]) -> None:
    address = f"/console/annotators/{ids(ask)['flip 12']}"
    form = {"csrf_token": token(reviewer.page(address)), "reason": "a test"}
    hook = {"url": "https://hooks.example.org/", "events": ["annotator.decided"]}
    webhook = ask("POST", "/webhooks", json=hook).json()["id"]

    def written() -> list[int]:
        """Count the decisions, audit entries and messages."""
        decided = ask("GET", "/annotators/flip 12").json()["decisions"]
        paths = "/audit", f"/webhooks/{webhook}/deliveries"
        return [len(decided), *(len(ask("GET", path, params={"limit": 100}).json()["items"]) for path in paths)]

    for first, then, override, standing in (
        ("trust", "exclude", "trusted", "trusted"),
        ("withdraw", "dismiss", None, "flagged"),
        ("dismiss", "exclude", None, "active"),
        ("exclude", "withdraw", "excluded", "excluded"),
        ("withdraw", "dismiss", None, "flagged"),
        ("dismiss", "withdraw", None, "active"),
    ):
        for action in (first, then):
            decided = reviewer.post(f"{address}/decisions", {**form, "action": action})
            assert decided.headers["location"] == address
        last, before = ask("GET", "/annotators/flip 12").json()["decisions"][0], written()
        undone = reviewer.post(f"{address}/decisions/{last['id']}/undo", form)
        assert undone.status_code == 303, (first, then, undone.text)
        now = ask("GET", "/annotators/flip 12").json()
        assert (now["override"], now["standing"]) == (override, standing), (first, then)
        assert now["decisions"][0]["reason"].startswith(f"undo: {then} of ")
        assert written() == [count + 1 for count in before], (first, then)


def token(page: Page) -> str:
    return page.all(".//input[@name='csrf_token']")[0].get("value") or ""


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"action": "exclude", "reason": "  "}, 422),
        ({"action": "exclude"}, 422),
        ({"action": "burn", "reason": "a test"}, 422),
        ({"action": "withdraw", "reason": "a test"}, 409),
    ],
)
def test_a_decision_that_cannot_be_taken_is_a_page_that_says_why(
    reviewer: Visitor, ask: Ask, crowd: list[str], fields: dict[str, str], status: int
) -> None:
    address = f"/console/annotators/{ids(ask)['flip 12']}"
    answer = reviewer.post(f"{address}/decisions", {"csrf_token": token(reviewer.page(address)), **fields})
    assert answer.status_code == status
    assert Page(answer).text(".//h1")
    assert ask("GET", "/annotators/flip 12").json()["decisions"] == []


def test_annotators_are_found_by_the_beginning_of_their_key(reviewer: Visitor, ask: Ask, published: list[str]) -> None:
    def found(query: str) -> list[str]:
        return reviewer.page(f"/console/annotators{query}").texts(".//a[@data-row]")

    assert len(found("")) == 14
    assert found("")[:2] == [one["annotator"] for one in ask("GET", "/annotators?limit=2").json()["items"]]
    assert found("?q=flip") == ["flip 12", "flip 13"]
    assert found("?q=honest+1") == ["honest 1", "honest 10", "honest 11"], "exact first, then by key"
    assert found("?q=honest&standing=flagged") == []
    assert sorted(found("?standing=flagged&q=")) == ["flip 12", "flip 13"]
    assert found(f"?q={ids(ask)['flip 13']}") == ["flip 13"]
    for nothing in ("FLIP", "%25", "_", "lip", "flip 12 ", "%00", "%F4%8F%BF%BF"):
        assert found(f"?q={nothing}") == (["flip 12"] if nothing == "flip 12 " else []), nothing
    assert reviewer.get("/console/annotators?standing=odd").status_code == 422


def test_long_lists_are_paged(reviewer: Visitor, ask: Ask) -> None:
    votes = [{"model_a": "a", "model_b": "b", "winner": "tie", "annotator": f"key/{i:03}<"} for i in range(120)]
    ask("POST", "/votes/batch", json={"votes": votes})
    for start in ("/console/annotators", "/console/annotators?q=key"):
        seen: list[str] = []
        address: str | None = start
        while address:
            page = reviewer.page(address)
            seen += page.texts(".//a[@data-row]")
            links = [link for link in page.all(".//p[@class='actions']/a") if text_of(link) == "Next page"]
            address = "/console/annotators" + (links[0].get("href") or "") if links else None
        assert seen == [vote["annotator"] for vote in votes]
    annotator = ids(ask)["key/000<"]
    page = reviewer.page(f"/console/annotators/{annotator}/votes")
    assert page.text(".//h1") == "Votes of key/000<"
    assert len(page.all(".//tbody/tr")) == 1
    ask("POST", "/votes", json={"annotator": "key/000<", "ranking": [["c"], ["b", "a"]]})
    assert reviewer.page(f"/console/annotators/{annotator}/votes").text(".//td[@data-label='Ranking']") == "c > b = a"


def test_who_may_only_read_on_annotators_sees_the_case_and_decides_nothing(
    sign_in: SignIn, reviewer: Visitor, ask: Ask, published: list[str]
) -> None:
    onlooker = sign_in("review:read")
    assert onlooker.get("/console").headers["location"] == "/console/reviews"
    assert len(onlooker.page("/console/reviews").all(".//a[@data-row]")) == 2
    address = f"/console/annotators/{ids(ask)['flip 12']}"
    assert decide(reviewer, address, "exclude").status_code == 303
    decision = ask("GET", "/annotators/flip 12").json()["decisions"][0]
    page = onlooker.page(address)
    forms = [form.get("action") for form in page.all(".//form[@method='post']")]
    assert forms == ["/console/sign-out"]
    assert "sign in with a key that has the scope review" in page.text(".//section[@aria-labelledby='decide']")
    fields = {"csrf_token": token(page), "action": "trust", "reason": "a test"}
    for path in (f"{address}/decisions", f"{address}/decisions/{decision['id']}/undo"):
        assert onlooker.post(path, fields).status_code == 403
    assert ask("GET", "/annotators/flip 12").json()["decisions"] == [decision]


def test_a_reader_has_no_review_pages(sign_in: SignIn) -> None:
    reader = sign_in("read")
    answer = reader.get("/console/reviews")
    assert (answer.status_code, Page(answer).text(".//h1")) == (403, "The API key lacks a scope")
    assert reader.get("/console").headers["location"] == "/"
    assert [text_of(tab) for tab in reader.page("/console/sessions").all(".//ul[@class='tabs']/li")] == []
