"""What spares votes the second reading of their body must not let pass what that reading refuses."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInputError
from app.http.bodies import refuse_ambiguous
from app.http.problems import MalformedBodyError
from app.votes import schemas as vote_bodies
from app.votes.schemas import parse_batch, parse_vote

WHOLE = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "k"}

texts = st.sampled_from(["a", "winner", "model_a", "votes", '"', "\\", "é", ""])
values = {
    "battle_id": st.none() | texts,
    "voted_at": st.none() | st.sampled_from([0, 1.5, "2026-01-01T00:00:00Z", "1"]),
    "tags": st.lists(texts, max_size=2),
    "metadata": st.dictionaries(texts, texts | st.none() | st.just(float("nan")), max_size=2),
    **dict.fromkeys(("model_a", "model_b", "winner", "annotator"), texts),
}
pairs = st.sampled_from(sorted(values)).flatmap(lambda name: st.tuples(st.just(name), values[name]))


@st.composite
def votes(draw: Any) -> str:
    """Draw a whole vote with further fields, some of them given already."""
    fields = [*WHOLE.items(), *draw(st.lists(pairs, max_size=3))]
    told = [
        f"{json.dumps(n)}: {json.dumps(v, ensure_ascii=draw(st.booleans()))}" for n, v in draw(st.permutations(fields))
    ]
    return "{" + ", ".join(told) + "}"


def passes(body: bytes) -> bool:
    try:
        refuse_ambiguous(body)
    except MalformedBodyError:
        return False
    return True


@given(votes())
def test_a_vote_that_is_taken_is_unambiguous(vote: str) -> None:
    body = vote.encode()
    try:
        taken = parse_vote(body)
    except (MalformedBodyError, BadInputError):
        return
    assert passes(body)
    assert (taken.model_a, taken.annotator) == (json.loads(body)["model_a"], json.loads(body)["annotator"])


@given(st.lists(votes(), min_size=1, max_size=3), st.booleans())
def test_a_batch_that_is_taken_is_unambiguous(many: list[str], twice: bool) -> None:
    whole = f'"votes": [{", ".join(many)}]'
    body = ("{" + (f"{whole}, {whole}" if twice else whole) + "}").encode()
    try:
        parse_batch(body)
    except (MalformedBodyError, BadInputError):
        return
    assert passes(body)


@pytest.mark.parametrize("more", [{}, {"battle_id": "7"}, {"battle_id": None}, {"tags": ["x", "y"], "metadata": {}}])
def test_plain_votes_are_read_once(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    def refuse(_body: bytes) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(vote_bodies, "refuse_ambiguous", refuse)
    monkeypatch.setattr("app.http.bodies.refuse_ambiguous", refuse)
    vote = {**WHOLE, **more}
    assert parse_vote(json.dumps(vote).encode()).winner == "model_a"
    assert len(parse_batch(json.dumps({"votes": [vote] * 3}).encode())) == 3
