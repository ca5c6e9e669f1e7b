"""Settings of a policy that are chosen together, by a name."""

from collections.abc import Mapping
from typing import Any, Literal

Preset = Literal["small-team"]

PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "small-team": {
        "min_votes": 0, "min_board_annotators": 1, "min_board_votes": 1,
        "min_model_votes": 1, "min_model_annotators": 1, "max_interval_width": None,
    },
}  # fmt: skip
"""small-team: every vote counts, and no board and no rank is withheld; the intervals say how little is known."""
