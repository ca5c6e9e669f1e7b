"""The formats of vote files that are known: an entry of `SCHEMAS` each, in a few lines."""

from collections.abc import Mapping

from app.imports.formats.schemas.schema import BOTH_BAD, FIRST, SECOND, TIE, A, B, Input, Schema

_SIDES: dict[Input, str] = {"model_a": "model_a", "model_b": "model_b"}
_VOTE: dict[Input, str] = {**_SIDES, "winner": "winner"}
_OURS: Mapping[Input, str] = {
    "battle_id": "battle_id", "voted_at": "timestamp", "tags": "tags", "metadata": "metadata",
    "propensity": "propensity", "vote_id": "vote_id",
    "annotator_kind": "annotator_kind", "criterion": "criterion", "cost": "cost", "features": "features",
    "ranking": "ranking",
}  # fmt: skip
_RANKINGS: Mapping[str, dict[Input, str]] = {"rankings-of-items": {"battle_id": "item"}, "rankings": {}}
_GRADES: Mapping[str, dict[Input, str]] = {"ranks": {"rank": "rank"}, "grades": {"grade": "rating"}}
_GRADED: Mapping[Input, str] = {
    name: _OURS[name] for name in ("voted_at", "tags", "metadata", "annotator_kind", "criterion")
}
_MISSING = frozenset({""})

_GAMES: Mapping[str, int] = {
    **dict.fromkeys(("A>B", "A>>B", "B<A", "B<<A"), A),
    **dict.fromkeys(("B>A", "B>>A", "A<B", "A<<B"), B),
    **dict.fromkeys(("A=B", "B=A"), TIE),
}

OURS = Schema("votes", required=_VOTE, optional=_OURS)

SCHEMAS: tuple[Schema, ...] = (
    # The judgments of arena-hard-auto: the judge compares each pair twice, the second time with the sides exchanged.
    Schema(
        "arena-hard",
        required={
            "model_a": "baseline", "model_b": "model", "first_score": "games.0.score", "second_score": "games.1.score",
        },
        optional={"battle_id": "uid"},
        winners=_GAMES,
        no_vote=_MISSING,
        derive="from_games",
    ),
    # Its first version does not name the baseline.
    Schema(
        "arena-hard-v01",
        required={"model_b": "model", "first_score": "games.0.score", "second_score": "games.1.score"},
        optional={"battle_id": "question_id"},
        winners=_GAMES,
        no_vote=_MISSING,
        derive="from_games",
    ),
    # JudgeBench and LLMBar: answers whose better one is known, each judged in both orders. The key votes too.
    Schema(
        "judge-bench",
        required={"label": "label", "first_score": "judgments.0.decision"},
        optional={"second_score": "judgments.1.decision", "category": "source"},
        winners={"A>B": A, "B>A": B, "A=B": TIE},
        no_vote=_MISSING,
        derive="from_games_with_key",
    ),
    Schema(
        "llmbar",
        required={
            "label": "label", "first_score": "results.0.swap = False.winner",
            "second_number": "results.0.swap = True.winner",
        },
        winners={"1": A, "2": B},
        no_vote=_MISSING,
        annotator="judge",
        derive="from_games_with_key",
    ),
    # Several answers in order, the best group first; answers in one group are equal. Other records may be on pairs.
    *(
        Schema(
            name,
            required={"ranking": "ranking", **battle},
            optional={name: column for name, column in {**_VOTE, **_OURS}.items() if name not in ("ranking", *battle)},
            kind="jsonl",
        )
        for name, battle in _RANKINGS.items()
    ),
    # A grade or a rank of one answer: those of an item by an annotator make a ranking.
    *(
        Schema(
            name,
            required={"battle_id": "item", "model": "model", **graded},
            optional=_GRADED,
            no_vote=_MISSING,
        )
        for name, graded in _GRADES.items()
    ),
    # The rankings of WMT, a row for each pair: the lower rank is better, and "+" joins systems with the same output.
    Schema(
        "wmt",
        required={
            "model_a": "system1Id", "model_b": "system2Id", "first_score": "system1rank", "second_score": "system2rank",
        },
        optional={"battle_id": "rankingID"},
        winners={"first": A, "second": B, "equal": TIE},
        no_vote=_MISSING,
        derive="from_ranks",
    ),
    # AlpacaEval's annotations: a preference of 1 is for the first answer, 2 for the second, 1.5 or 0 for neither.
    Schema(
        "alpaca-eval",
        required={"model_a": "generator_1", "model_b": "generator_2", "preference": "preference"},
        optional={"cost": "price_per_example", "category": "dataset"},
        winners={"output_1": A, "output_2": B, "draw": TIE},
        no_vote=_MISSING,
        derive="from_preference",
    ),
    # Open WebUI's feedback: a thumb up or down for one of several answers is a vote against each other answer.
    Schema(
        "open-webui",
        required={"model_a": "data.model_id", "siblings": "data.sibling_model_ids", "winner": "data.rating"},
        optional={"battle_id": "id", "voted_at": "created_at"},
        clock="either",
        winners={"1": A, "-1": B, "1.0": A, "-1.0": B},
        no_vote=_MISSING,
        derive="from_feedback",
    ),
    Schema(
        "comparia-votes",
        required={"model_a": "model_a_name", "model_b": "model_b_name", "winner": "chosen_model_name"},
        optional={"equal": "both_equal", "battle_id": "conversation_pair_id", "voted_at": "timestamp"},
        winners={FIRST: A, SECOND: B, "both_equal": TIE},
        no_vote=_MISSING,
        derive="from_name_or_equal",
    ),
    Schema(
        "comparia-turns",
        required={"model_a": "llm_id_a", "model_b": "llm_id_b", "winner": "choice"},
        optional={"voted_at": "voted_at"},
        winners={"a_better": A, "b_better": B, "both_good": TIE, "both_bad": BOTH_BAD},
        no_vote=frozenset({"", "idk"}),
    ),
    Schema(
        "tts-arena",
        required={"model_a": "chosen_model_id", "model_b": "rejected_model_id"},
        optional={"voted_at": "created_at"},
        clock="either",
        winners={"chosen": A},
        derive="as_chosen",
    ),
    Schema(
        "autoarena",
        required={"model_a": "response_a_id", "model_b": "response_b_id", "winner": "winner"},
        winners={"A": A, "B": B, "-": TIE},
    ),
    # Files of evalica and llmfao.
    Schema(
        "evalica",
        required={"model_a": "left", "model_b": "right", "winner": "winner"},
        winners={"left": A, "right": B, "tie": TIE},
    ),
    Schema(
        "crowd-kit",
        required={"model_a": "left", "model_b": "right", "winner": "label"},
        winners={FIRST: A, SECOND: B},
        derive="from_name",
    ),
    Schema(
        "lmarena-55k",
        required={
            **_SIDES, "battle_id": "id", "won_a": "winner_model_a", "won_b": "winner_model_b", "tied": "winner_tie",
        },
        winners={"1,0,0": A, "0,1,0": B, "0,0,1": TIE},
        derive="from_one_hot",
    ),
    # arena-human-preference-140k and expert-5k; they have sessions, not annotators.
    Schema(
        "lmarena-140k",
        required={**_VOTE, "battle_id": "id"},
        optional={"voted_at": "timestamp"},
        marks=frozenset({"evaluation_session_id"}),
        clock="either",
    ),
    Schema(
        "lmarena-100k",
        required=_VOTE,
        optional={"battle_id": "question_id", "voted_at": "tstamp"},
        marks=frozenset({"judge_hash"}),
        clock="seconds",
    ),
    Schema("lmarena-33k", required={**_VOTE, "battle_id": "question_id", "voted_at": "tstamp"}, clock="seconds"),
    Schema(
        "search-arena",
        required=_VOTE,
        optional={"voted_at": "timestamp"},
        marks=frozenset({"primary_intent"}),
        clock="either",
        no_vote=_MISSING,
    ),
    # Its question_id is a question for many pairs of models, not a battle.
    Schema(
        "mt-bench",
        required=_VOTE,
        optional={"turn": "turn"},
        marks=frozenset({"question_id", "turn"}),
        derive="with_turn",
    ),
    # Votes that this service exported as CSV: names that look like formulas begin with an apostrophe.
    Schema(
        "export-csv",
        required=_VOTE,
        optional=_OURS,
        marks=frozenset({"vote_id"}),
        kind="csv",
        derive="without_apostrophes",
    ),
    OURS,
    Schema(
        "coval",
        required={**_SIDES, "winner": "outcome"},
        marks=frozenset({"voter_type"}),
        winners={"A_WIN": A, "B_WIN": B, "TIE": TIE},
    ),
    Schema(
        "minebench",
        required={**_SIDES, "winner": "choice"},
        winners={"A": A, "B": B, "TIE": TIE, "BOTH_BAD": BOTH_BAD},
    ),
    Schema(
        "bigcode-arena",
        required={**_SIDES, "winner": "vote"},
        optional={"voted_at": "timestamp"},
        clock="either",
        winners={"left": A, "right": B, "tie": TIE, "both_bad": BOTH_BAD},
    ),
    # The log of FastChat's server: a line for every act of a user, few of them votes.
    Schema(
        "fastchat-log",
        required={"voted_at": "tstamp", "winner": "type"},
        optional={
            "model_a": "states.0.model_name", "model_b": "states.1.model_name",
            "shown_a": "models.0", "shown_b": "models.1", "battle_id": "states.0.conv_id",
        },
        kind="jsonl",
        clock="seconds",
        winners={"leftvote": A, "rightvote": B, "tievote": TIE, "bothbad_vote": BOTH_BAD},
        no_vote=_MISSING,
        derive="from_fastchat_log",
    ),
)  # fmt: skip
"""The formats in the order in which they are tried: those with more columns before those with fewer, and those with a
column named winner before those with another one."""
