"""The fixtures of the browser notice what they promise to notice."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.fixtures.browser import NewPage, PageProblems, assert_accessible, assert_fits_phone, layout_shift
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.browser


def serve_instead(page: Page, body: str, policy: str = "default-src 'self'") -> None:
    """Answer every request of the page with this body."""

    def answer(route: Route) -> None:
        route.fulfill(
            body=f"<!doctype html><html lang=en><title>Test</title>{body}",
            content_type="text/html",
            headers={"Content-Security-Policy": policy},
        )

    page.route("/", answer)
    page.goto("/")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>document.title = 'ran'</script>", "CSP: script-src-elem refused inline"),
        ("<p style='color: red'>red</p>", "CSP: style-src-attr refused inline"),
        ("<img alt='' src='http://elsewhere.example/'>", "another host: http://elsewhere.example/"),
        ("<script src='/docs/nothing.js'></script>", "console: "),
    ],
)
def test_what_goes_wrong_in_a_page_is_noted(page: Page, page_problems: PageProblems, body: str, problem: str) -> None:
    serve_instead(page, body, policy="default-src 'self'; img-src *")
    page.wait_for_load_state("networkidle")
    assert any(problem in found for found in page_problems.unexpected()), page_problems.unexpected()
    page_problems.expect("")


def test_a_missing_page_is_noted_unless_it_is_expected(page: Page, page_problems: PageProblems) -> None:
    page.goto("/nothing-here")
    page.wait_for_load_state("networkidle")
    assert any("/nothing-here" in problem for problem in page_problems.unexpected())
    page_problems.expect("status of 404")
    assert page_problems.unexpected() == []


def test_what_cannot_be_read_is_noticed_in_light_and_dark(page: Page) -> None:
    styles = "@media (prefers-color-scheme: {}) {{ p {{ color: #ccc; background: #fff }} }}"
    for scheme in ("light", "dark"):
        serve_instead(
            page,
            f"<style>{styles.format(scheme)}</style><main><h1>Test</h1><p>faint</p></main>",
            policy="default-src 'self'; style-src 'unsafe-inline'",
        )
        with pytest.raises(AssertionError, match=rf"^{scheme}: (?s:.)*contrast"):
            assert_accessible(page)


def test_a_page_too_wide_for_a_phone_is_noticed(page: Page) -> None:
    serve_instead(page, "<table><tr>" + "<td>something wide</td>" * 30 + "</table>")
    with pytest.raises(AssertionError, match="wide on a phone"):
        assert_fits_phone(page)


def test_content_that_moves_is_noticed(page: Page) -> None:
    serve_instead(page, "<p>text</p><p>more</p>")
    before = layout_shift(page)
    page.evaluate("document.body.prepend(document.createElement('textarea'))")
    wait_until(lambda: layout_shift(page) > before)


def test_a_page_works_without_scripts(new_page: NewPage, page_without_scripts: Page) -> None:
    body = "<script src='/script.js'></script><noscript>no scripts</noscript>"
    serve_instead(page_without_scripts, body)
    expect(page_without_scripts.get_by_text("no scripts")).to_be_visible()
