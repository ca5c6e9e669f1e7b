"""Imports in the console: a file sent by the form, its progress, and its errors."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import expect

from app.database.engine import Database
from app.imports.process import ImportProcess
from app.imports.runner import ImportRunner
from tests.fixtures.browser import PageProblems, assert_accessible, assert_fits_phone
from tests.fixtures.console import SignIn, Visitor
from tests.fixtures.pages import Page, text_of

GOOD = "annotator,model_a,model_b,winner\nann,amber,birch,model_a\nbob,amber,birch,tie\n"
BAD = "annotator,model_a,model_b,winner\nann,amber,birch,model_a\nbob,amber,,tie\ncid,amber,birch,drew\n"


@pytest.fixture
def run_imports(database: Database) -> Callable[[], None]:
    def run() -> None:
        runner = ImportRunner(database, lease_seconds=30)
        while runner.run_next():
            pass

    return run


@pytest.fixture(autouse=True)
def _files_read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child takes longer to start than a test takes; tests/imports/test_preview.py has the children."""
    monkeypatch.setattr(ImportProcess, "call", lambda _, work: work())


def send(visitor: Visitor, name: str, content: str, to: str = "", **fields: str | list[str]) -> Any:
    form = visitor.page("/console/imports")
    token = form.all(".//form[@id='upload']//input[@name='csrf_token']")[0].get("value", "")
    files = {"file": (name, content.encode())} if name else None
    return visitor.client.post(
        f"/console/imports{to}", data={"csrf_token": token, **fields}, files=files, headers={"Origin": visitor.origin}
    )


def test_a_file_is_sent_and_its_errors_are_shown(sign_in: SignIn, run_imports: Callable[[], None]) -> None:
    admin = sign_in("admin")
    assert (
        admin.page("/console/imports").text(".//div[@class='empty']/p[@class='lead']")
        == "No file has been imported yet."
    )
    sent = send(admin, "votes.csv", BAD, skip_invalid="yes")
    address = sent.headers["location"]
    waiting = admin.page(address)
    assert waiting.one(".//div[@id='import']").get("hx-trigger") == "every 1s"
    run_imports()
    done = admin.page(address)
    assert dict(zip(done.texts(".//dl/div/dt"), done.texts(".//dl/div/dd"), strict=True)) == {
        "records": "3",
        "votes recorded": "1",
        "not valid": "2",
    }
    assert [place.split(",")[0] for place in done.texts(".//tbody/tr/th")] == ["line 3", "line 4"]
    errors = admin.get(f"{address}/errors")
    assert errors.headers["cache-control"] == "no-store"
    assert errors.text.splitlines()[0] == "record,place,kind,detail"
    assert len(errors.text.splitlines()) == 3
    again = send(admin, "votes.csv", BAD, skip_invalid="yes")
    assert again.headers["location"] == f"{address}?known=true"
    assert "imported before" in admin.page(again.headers["location"]).text(".//div[@class='notice']/p")


def test_a_file_that_is_on_record_leaves_a_choice(sign_in: SignIn, run_imports: Callable[[], None]) -> None:
    admin = sign_in("admin")
    rows = "annotator,model_a,model_b,winner\nk,ant,bee,tie\nk,ant,cat,tie\n"

    def shown(content: str, **fields: str) -> Page:
        address = send(admin, "votes.csv", content, **fields).headers["location"]
        run_imports()
        return admin.page(address)

    assert shown(rows).texts(".//dl/div/dd")[:2] == ["2", "2"]
    assert "2 of its 3 votes are on record" in shown(rows + "l,ant,bee,tie\n").text(".//p/strong")
    assert shown(rows + "l,ant,bee,tie\n", new_rows_only="yes").texts(".//dl/div/dd")[:2] == ["3", "1"]
    assert shown(rows + "\n", allow_repeats="yes").texts(".//dl/div/dd")[:2] == ["2", "2"]
    both = send(admin, "votes.csv", rows, new_rows_only="yes", allow_repeats="yes")
    assert "exclude each other" in Page(both).text(".//div[@id='upload-problem']/p")


def test_what_a_column_or_a_rank_means_is_asked_and_said(sign_in: SignIn, run_imports: Callable[[], None]) -> None:
    admin = sign_in("admin")
    counts = "annotator,model_a,model_b,winner,n\nk,ant,bee,tie,2\n"
    ranks = "item,annotator,model,rank\n1,k,ant,0\n1,k,bee,1\n1,k,cat,2\n"
    for content, asked, fields in (
        (counts, "weight=n", {"columns": "weight="}),
        (ranks, "zero_rank", {"zero_rank": "unranked"}),
    ):
        assert asked in Page(send(admin, "votes.csv", content, to="/preview")).text(".//div[@class='notice warn']")
        address = send(admin, "votes.csv", content, **fields).headers["location"]
        run_imports()
        assert admin.page(address).texts(".//dl/div/dd")[1] == "1"
    mapped = counts.replace("winner", "verdict")
    shown = Page(send(admin, "votes.csv", mapped, to="/preview", column_winner="verdict", columns="weight="))
    assert "1 of the first 1 record is a vote" in shown.text(".//p")


TASKS = [
    {"id": 1, "data": {"model_1": "ant", "model_2": "bee"}, "annotations": [
        {"completed_by": {"id": 3}, "status": "ok", "result": [{"value": {"selected": "left"}}]},
        {"completed_by": {"id": 4}, "status": "no", "result": [{"value": {"selected": "left"}}]},
    ]},
]  # fmt: skip


def test_lists_inside_of_records_are_proposed_and_read(sign_in: SignIn, run_imports: Callable[[], None]) -> None:
    admin, content = sign_in("admin"), json.dumps(TASKS)
    said = Page(send(admin, "tasks.json", content, to="/preview")).text(".//div[@class='notice warn']")
    columns = shlex.split(said.partition("--columns ")[2].rstrip("."))[0]
    chosen = {"columns": columns, "where": "annotations[].status=ok"}
    shown = Page(send(admin, "tasks.json", content, to="/preview", **chosen))
    assert "Read as votes: 1 of the first 1 record is a vote." in shown.text(".//p")
    address = send(admin, "tasks.json", content, **chosen).headers["location"]
    run_imports()
    assert admin.page(address).texts(".//dl/div/dd") == ["1", "1"]


FRENCH = "juge,modele_a,modele_b,verdict\nann,amber,birch,gauche\nbob,amber,birch,égalité\ncid,amber,birch,gauche\n"
COLUMNS = {"column_annotator": "juge", "column_model_a": "modele_a", "column_model_b": "modele_b"}


def test_a_file_is_looked_into_before_it_is_sent(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    page = Page(send(admin, "votes.csv", GOOD, to="/preview"))
    assert "Read as votes: 2 of the first 2 records are votes." in page.text(".//p")
    assert page.texts(".//thead//th") == ["annotator", "model_a", "model_b", "winner"]
    assert page.texts(".//tbody/tr/td") == ["ann", "amber", "birch", "model_a", "bob", "amber", "birch", "tie"]
    assert text_of(page.all(".//select[@id='column-winner']/option")[0]) == "winner, found"

    unknown = Page(send(admin, "votes.csv", FRENCH, to="/preview"))
    assert "Say which columns a vote is in." in unknown.text(".//p[@class='small muted']")
    assert "juge" in unknown.texts(".//select[@id='column-annotator']/option")
    named = Page(send(admin, "votes.csv", FRENCH, to="/preview", **COLUMNS, column_winner="verdict"))
    assert named.texts(".//label")[-2:] == ["“gauche” means (2 times)", "“égalité” means (1 time)"]
    assert named.one(".//select[@id='column-winner']/option[@selected]").text == "verdict"

    cut = Page(send(admin, "votes.csv", GOOD + 'c,"am\nber",birch,ti', to="/preview", cut="yes"))
    assert "2 of the first 2 records" in cut.text(".//p")
    assert "not JSON" in Page(send(admin, "votes.jsonl", "nonsense", to="/preview")).text(
        ".//div[@class='notice warn']"
    )


def test_the_words_of_a_refused_file_are_mapped(sign_in: SignIn, run_imports: Callable[[], None]) -> None:
    admin = sign_in("admin")
    sent = send(admin, "votes.csv", FRENCH, columns="winner=verdict,annotator=juge,model_a=modele_a,model_b=modele_b")
    address = sent.headers["location"]
    run_imports()
    page = admin.page(address)
    words = page.one(".//section[@aria-labelledby='words']")
    assert [one.get("value") for one in words.findall(".//input[@name='word']")] == ["gauche", "égalité"]
    hidden = {str(one.get("name")): str(one.get("value")) for one in words.findall(".//input[@type='hidden']")}
    mapped = {"columns": hidden["columns"], "word": ["gauche", "égalité"], "meaning": ["left", "tie"]}
    address = send(admin, "votes.csv", FRENCH, **mapped).headers["location"]
    run_imports()
    done = admin.page(address)
    assert done.texts(".//dl/div/dd") == ["3", "3"]
    assert not done.all(".//section[@aria-labelledby='words']")


def test_a_file_that_cannot_be_one_is_refused_beside_the_form(sign_in: SignIn) -> None:
    admin = sign_in("admin")
    for name, content, words in (
        ("votes.doc", GOOD, "must end with .csv"),
        ("votes.csv", "", "the body is empty"),
        ("", "", "choose a file"),
    ):
        answer = send(admin, name, content)
        assert answer.status_code == 422
        assert words in Page(answer).text(".//div[@id='upload-problem']/p")
    assert sign_in("review").get("/console/imports").status_code == 403


@pytest.mark.browser
def test_a_file_is_dropped_in_a_browser(
    page: BrowserPage,
    console: Callable[[BrowserPage], None],
    run_imports: Callable[[], None],
    page_problems: PageProblems,
    tmp_path: Path,
) -> None:
    console(page)
    page.goto("/console/imports")
    assert_accessible(page)
    assert_fits_phone(page)
    page.evaluate(
        """(text) => {
            const carried = new DataTransfer();
            carried.items.add(new File([text], "votes.csv"));
            const dropped = new DragEvent("drop", { dataTransfer: carried, cancelable: true });
            document.getElementById("drop").dispatchEvent(dropped);
        }""",
        BAD,
    )
    page.get_by_role("button", name="Send the file").click()
    expect(page.get_by_role("heading", name="votes.csv")).to_be_visible()
    run_imports()
    expect(page.get_by_role("heading", name="Errors in the file")).to_be_visible()
    assert_accessible(page)
    assert_fits_phone(page)

    page_problems.expect("status of 422")
    page.goto("/console/imports")
    (tmp_path / "votes.pdf").write_text(GOOD)
    page.get_by_label("File of votes").set_input_files(tmp_path / "votes.pdf")
    page.get_by_role("button", name="Send the file").click()
    expect(page.locator("#upload-problem")).to_contain_text("must end with .csv")
    page.goto("/console/health")
    expect(page.get_by_text("1 failed.")).to_be_visible()
    assert_accessible(page)
    assert_fits_phone(page)
