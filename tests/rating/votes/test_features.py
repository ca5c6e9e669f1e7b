"""Features of votes: how they are measured, and which are refused."""

import numpy as np
import pytest

from app.rating.errors import VotesError
from app.rating.settings import SIDE
from app.rating.votes.features import featured_cells, refuse_constant
from app.rating.votes.measures import Features, measure_features
from tests.fixtures.errors import having
from tests.rating.model.styled_world import draw_styled


def test_features_are_measured_from_both_answers() -> None:
    columns = {"length": (np.array([30.0, 0.0]), np.array([10.0, 0.0])), "tone": (np.array([-1.0, 2]), np.ones(2))}
    found = measure_features((SIDE, "length", "tone"), columns, 2)
    assert found.values == pytest.approx(np.array([[1, np.sqrt(2), -2 / np.sqrt(2.5)], [1, 0, 1 / np.sqrt(2.5)]]))


@pytest.mark.parametrize(("names", "code"), [(("tone",), "column"), ((SIDE, SIDE), "value"), (("same",), "value")])
def test_features_that_are_none_are_refused(names: tuple[str, ...], code: str) -> None:
    with pytest.raises(VotesError, check=having(code=code)):
        measure_features(names, {"same": (np.ones(3), np.ones(3))}, 3)


def test_a_feature_that_only_tells_models_apart_is_refused() -> None:
    world = draw_styled(12, 60, n_models=5)
    votes = world.votes
    values = np.column_stack([votes.model_a - votes.model_b, world.features.values[:, 1]]).astype(float)
    cells = featured_cells(votes, Features(("size", "length"), values), world.compact())
    with pytest.raises(VotesError, match="size", check=having(code="value")):
        refuse_constant(cells, ("size", "length"))
