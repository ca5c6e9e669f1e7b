import pytest
from fastapi import FastAPI
from pydantic import BaseModel, TypeAdapter

from app.api.pagination import Page, paginate, read_cursor
from app.errors import BadInputError
from tests.fixtures.errors import at

_POSITION = TypeAdapter(tuple[int])


class Shown(BaseModel):
    number: int


class Known(Shown):
    place: int


@pytest.mark.parametrize(("n_found", "shown"), [(0, 0), (2, 2), (3, 3), (4, 3)])
def test_a_cursor_is_given_only_where_another_page_follows(n_found: int, shown: int) -> None:
    page = paginate(list(range(n_found)), 3, lambda last: (last,))

    assert page.items == list(range(shown))
    assert (page.next_cursor is not None) == (n_found > shown)
    assert read_cursor(page.next_cursor, _POSITION) == ((2,) if n_found > shown else None)


def test_an_answer_has_the_fields_of_its_kind_alone() -> None:
    page = paginate([Known(number=1, place=7), Known(number=2, place=8)], 1, lambda last: (last.place,))

    answer = Page[Shown].model_validate(page, from_attributes=True).model_dump()

    assert answer["items"] == [{"number": 1}]
    assert read_cursor(answer["next_cursor"], _POSITION) == (7,)


def test_a_cursor_of_another_list_is_refused() -> None:
    cursor = paginate(["a", "b"], 1, lambda last: (last,)).next_cursor

    with pytest.raises(BadInputError, check=at("/cursor")):
        read_cursor(cursor, _POSITION)


def test_pages_have_plain_titles_in_the_description(usual_app: FastAPI) -> None:
    titles = {schema["title"] for schema in usual_app.openapi()["components"]["schemas"].values()}

    assert {"SnapshotPage", "ModelPage", "AnnotatorPage", "AuditEntryPage", "KeyPage", "MatchupPage"} <= titles
    assert not [title for title in titles if not title.isidentifier()]
