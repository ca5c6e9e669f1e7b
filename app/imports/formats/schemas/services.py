"""The formats of other arenas, of annotation tools, and our own."""

from collections.abc import Mapping

from app.imports.formats.schemas import derive
from app.imports.formats.schemas.schema import BOTH_BAD, TIE, A, B, Input, Schema

_OPTIONAL: Mapping[Input, str] = {
    "battle_id": "battle_id", "voted_at": "timestamp", "tags": "tags", "metadata": "metadata",
    "propensity": "propensity", "vote_id": "vote_id",
}  # fmt: skip

OUR_EXPORT = Schema(
    name="export-csv",
    required={"model_a": "model_a", "model_b": "model_b", "winner": "winner"},
    optional=_OPTIONAL,
    marks=frozenset({"vote_id"}),
    kind="csv",
    derive=derive.without_apostrophes,
)
"""Votes that this service exported as CSV: names that look like formulas begin with an apostrophe."""

OURS = Schema(
    name="votes",
    required={"model_a": "model_a", "model_b": "model_b", "winner": "winner"},
    optional=_OPTIONAL,
)

COMPARIA = Schema(
    name="comparia-votes",
    required={"model_a": "model_a_name", "model_b": "model_b_name", "winner": "chosen_model_name"},
    optional={"equal": "both_equal", "battle_id": "conversation_pair_id", "voted_at": "timestamp"},
    winners={derive.FIRST: A, derive.SECOND: B, "both_equal": TIE},
    no_vote=frozenset({""}),
    derive=derive.from_name_or_equal,
)

COMPARIA_TURNS = Schema(
    name="comparia-turns",
    required={"model_a": "llm_id_a", "model_b": "llm_id_b", "winner": "choice"},
    optional={"voted_at": "voted_at"},
    winners={"a_better": A, "b_better": B, "both_good": TIE, "both_bad": BOTH_BAD},
    no_vote=frozenset({"", "idk"}),
)

COVAL = Schema(
    name="coval",
    required={"model_a": "model_a", "model_b": "model_b", "winner": "outcome"},
    marks=frozenset({"voter_type"}),
    winners={"A_WIN": A, "B_WIN": B, "TIE": TIE},
)

MINEBENCH = Schema(
    name="minebench",
    required={"model_a": "model_a", "model_b": "model_b", "winner": "choice"},
    winners={"A": A, "B": B, "TIE": TIE, "BOTH_BAD": BOTH_BAD},
)

AUTOARENA = Schema(
    name="autoarena",
    required={"model_a": "response_a_id", "model_b": "response_b_id", "winner": "winner"},
    winners={"A": A, "B": B, "-": TIE},
)

TTS_ARENA = Schema(
    name="tts-arena",
    required={"model_a": "chosen_model_id", "model_b": "rejected_model_id"},
    optional={"voted_at": "created_at"},
    clock="either",
    winners={"chosen": A},
    derive=derive.as_chosen,
)

EVALICA = Schema(
    name="evalica",
    required={"model_a": "left", "model_b": "right", "winner": "winner"},
    winners={"left": A, "right": B, "tie": TIE},
)
"""Files of evalica and llmfao."""

CROWD_KIT = Schema(
    name="crowd-kit",
    required={"model_a": "left", "model_b": "right", "winner": "label"},
    winners={derive.FIRST: A, derive.SECOND: B},
    derive=derive.from_name,
)

OPEN_WEBUI = Schema(
    name="open-webui",
    required={"model_a": "data.model_id", "siblings": "data.sibling_model_ids", "winner": "data.rating"},
    optional={"battle_id": "id", "voted_at": "created_at"},
    clock="either",
    winners={"1": A, "-1": B, "1.0": A, "-1.0": B},
    no_vote=frozenset({""}),
    derive=derive.from_feedback,
)
"""Open WebUI's feedback: a thumb up or down for one of several answers is a vote against each other answer."""
