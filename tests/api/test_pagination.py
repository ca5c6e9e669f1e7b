import pytest
from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter

from app.api.pagination import paginate, read_cursor
from app.errors import BadInputError
from tests.fixtures.errors import at

_POSITION = TypeAdapter(tuple[int])


class Shown(BaseModel):
    number: int


@pytest.mark.parametrize(("n_found", "shown"), [(0, 0), (2, 2), (3, 3), (4, 3)])
def test_a_cursor_is_given_only_where_another_page_follows(n_found: int, shown: int) -> None:
    page = paginate(list(range(n_found)), 3, lambda last: (last,))

    assert page.items == list(range(shown))
    assert (page.next_cursor is not None) == (n_found > shown)
    assert read_cursor(page.next_cursor, _POSITION) == ((2,) if n_found > shown else None)


def test_a_converted_page_keeps_its_cursor() -> None:
    page = paginate([1, 2, 3], 2, lambda last: (last,))

    converted = page.convert(lambda number: Shown(number=number))

    assert converted.items == [Shown(number=1), Shown(number=2)]
    assert converted.next_cursor == page.next_cursor


def test_a_cursor_of_another_list_is_refused() -> None:
    cursor = paginate(["a", "b"], 1, lambda last: (last,)).next_cursor

    with pytest.raises(BadInputError, check=at("/cursor")):
        read_cursor(cursor, _POSITION)


def test_pages_have_plain_titles_in_the_description(usual_app: FastAPI) -> None:
    titles = {schema["title"] for schema in usual_app.openapi()["components"]["schemas"].values()}

    assert {"SnapshotPage", "ModelPage", "AnnotatorPage", "AuditEntryPage", "KeyPage", "MatchupPage"} <= titles
    assert not [title for title in titles if not title.isidentifier()]
