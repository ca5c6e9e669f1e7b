"""The formats of LMArena and related data sets."""

from app.imports.formats.schemas import derive
from app.imports.formats.schemas.schema import BOTH_BAD, TIE, A, B, Input, Schema

_SIDES: dict[Input, str] = {"model_a": "model_a", "model_b": "model_b", "winner": "winner"}

FASTCHAT_LOG = Schema(
    name="fastchat-log",
    required={"voted_at": "tstamp", "winner": "type"},
    optional={
        "model_a": "states.0.model_name",
        "model_b": "states.1.model_name",
        "shown_a": "models.0",
        "shown_b": "models.1",
        "battle_id": "states.0.conv_id",
    },
    kind="jsonl",
    clock="seconds",
    winners={"leftvote": A, "rightvote": B, "tievote": TIE, "bothbad_vote": BOTH_BAD},
    no_vote=frozenset({""}),
    derive=derive.from_fastchat_log,
)
"""The log of FastChat's server: a line for every act of a user, few of them votes."""

LMARENA_33K = Schema(
    name="lmarena-33k",
    required={**_SIDES, "battle_id": "question_id", "voted_at": "tstamp"},
    clock="seconds",
)

LMARENA_100K = Schema(
    name="lmarena-100k",
    required=_SIDES,
    optional={"battle_id": "question_id", "voted_at": "tstamp"},
    marks=frozenset({"judge_hash"}),
    clock="seconds",
)

LMARENA_140K = Schema(
    name="lmarena-140k",
    required={**_SIDES, "battle_id": "id"},
    optional={"voted_at": "timestamp"},
    marks=frozenset({"evaluation_session_id"}),
    clock="either",
)
"""arena-human-preference-140k and expert-5k; they have sessions, not annotators."""

KAGGLE_55K = Schema(
    name="lmarena-55k",
    required={
        "battle_id": "id",
        "model_a": "model_a",
        "model_b": "model_b",
        "won_a": "winner_model_a",
        "won_b": "winner_model_b",
        "tied": "winner_tie",
    },
    winners={"1,0,0": A, "0,1,0": B, "0,0,1": TIE},
    derive=derive.from_one_hot,
)

SEARCH_ARENA = Schema(
    name="search-arena",
    required=_SIDES,
    optional={"voted_at": "timestamp"},
    marks=frozenset({"primary_intent"}),
    clock="either",
    no_vote=frozenset({""}),
)

MT_BENCH = Schema(name="mt-bench", required=_SIDES, marks=frozenset({"question_id", "turn"}))
"""Its question_id is a question for many pairs of models, not a battle."""

BIGCODE_ARENA = Schema(
    name="bigcode-arena",
    required={"model_a": "model_a", "model_b": "model_b", "winner": "vote"},
    optional={"voted_at": "timestamp"},
    clock="either",
    winners={"left": A, "right": B, "tie": TIE, "both_bad": BOTH_BAD},
)
