import pytest

from app.rating.settings import LoopSettings
from app.rating.uncertainty.rating import Rating
from app.rating.verdict import loading
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells
from app.rating.votes.tally import pack_votes


def test_a_process_loads_the_kernels_of_the_same_settings_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rated: list[LoopSettings] = []

    def rate(cells: Cells, settings: LoopSettings) -> Rating:
        rated.append(settings)
        return run_round(cells, settings)

    monkeypatch.setattr(loading, "run_round", rate)
    loading.load_kernels.cache_clear()
    for rule in ("threshold", "threshold", "evidence"):
        loading.load_kernels("am-elo", rule, "clustered")
    assert [settings.flag_rule for settings in rated] == ["threshold", "evidence"]
    assert pack_votes.signatures
