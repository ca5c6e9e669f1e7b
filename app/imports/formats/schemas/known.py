"""The formats of vote files that are known: an entry of `SCHEMAS` each, in a few lines."""

from collections.abc import Mapping

from app.imports.formats.schemas.schema import Input, Scale, Schema
from app.rating.votes.words import BOTH_BAD, TIE, A, B

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
_OF_RECORD: Mapping[Input, str] = {"battle_id": "battle_id", **_GRADED}

OURS = Schema("votes", required=_VOTE, optional=_OURS)


def _games(first: str, second: str, baseline: str, model: str) -> tuple[Mapping[Input, str], ...]:
    """Return the rows of two games, the second with the sides exchanged."""
    return (
        {"model_a": baseline, "model_b": model, "winner": first},
        {"model_a": model, "model_b": baseline, "winner": second},
    )


def _keyed(first: str, second: Mapping[Input, str]) -> tuple[Mapping[Input, str], ...]:
    """Return the rows of an answer that is known to be the better one: two games, and the key's own vote."""
    judge: dict[Input, str] = {"annotator_kind": "=judge"}
    return (
        {"model_a": "=first", "model_b": "=second", "winner": first, **judge},
        {"model_a": "=second", "model_b": "=first", **second, **judge},
        {
            "model_a": "=first", "model_b": "=second", "winner": "label", "annotator": "=key",
            "annotator_kind": "=human",
        },
    )  # fmt: skip


COUNTS = Schema(
    "counts",
    required={**_SIDES, "wins_a": "wins_a", "wins_b": "wins_b"},
    optional={"ties": "ties", "criterion": "criterion"},
    scale=Scale(1.0, 0.0),
    derive="from_counts",
)
RANKING = Schema("rankings", required={"ranking": "ranking"}, optional=_OF_RECORD)
GRADES = {
    name: Schema(name, required={"model": "model", **graded}, optional=_OF_RECORD) for name, graded in _GRADES.items()
}
CHOICE = Schema("choices", required={"best": "best"}, optional=_OF_RECORD)
"""Forms of which `--columns` names the columns."""

SCHEMAS: tuple[Schema, ...] = (
    # The judgments of arena-hard-auto: the judge compares each pair twice, the second time with the sides exchanged.
    Schema(
        "arena-hard",
        required={"model_a": "baseline", "model_b": "model"},
        optional={"battle_id": "uid"},
        marks=frozenset({"games.0.score"}),
        rows=_games("games.0.score", "games.1.score", "baseline", "model"),
    ),
    # Its first version does not name the baseline.
    Schema(
        "arena-hard-v01",
        required={"model_b": "model"},
        optional={"battle_id": "question_id"},
        marks=frozenset({"games.0.score"}),
        rows=_games("games.0.score", "games.1.score", "=baseline", "model"),
    ),
    # JudgeBench and LLMBar: answers whose better one is known, each judged in both orders. The key votes too.
    Schema(
        "judge-bench",
        required={"label": "label"},
        optional={"category": "source"},
        marks=frozenset({"judgments.0.decision"}),
        rows=_keyed("judgments.0.decision", {"winner": "judgments.1.decision"}),
        derive="with_known_answers",
    ),
    Schema(
        "llmbar",
        required={"label": "label"},
        marks=frozenset({"results.0.swap = False.winner", "results.0.swap = True.winner"}),
        rows=_keyed("results.0.swap = False.winner", {"winner": "results.0.swap = True.winner", "swapped": "=yes"}),
        winners={"1": A, "2": B},
        no_vote=frozenset({"None"}),
        annotator="judge",
        derive="with_known_answers",
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
        Schema(name, required={"battle_id": "item", "model": "model", **graded}, optional=_GRADED)
        for name, graded in _GRADES.items()
    ),
    # The rankings of WMT, a row for each pair: the lower rank is better, and "+" joins systems with the same output.
    Schema(
        "wmt",
        required={
            "model_a": "system1Id", "model_b": "system2Id", "first_score": "system1rank", "second_score": "system2rank",
        },
        optional={"battle_id": "rankingID"},
        derive="from_ranks",
    ),
    # AlpacaEval's annotations: a preference of 1 is for the first answer, 2 for the second, 1.5 or 0 for neither.
    Schema(
        "alpaca-eval",
        required={"model_a": "generator_1", "model_b": "generator_2", "winner": "preference"},
        optional={"cost": "price_per_example", "category": "dataset"},
        winners={"0": TIE, "0.0": TIE},
        scale=Scale(1.0, 2.0),
    ),
    # Open WebUI's feedback: a thumb up or down for one of several answers is a vote against each other answer.
    Schema(
        "open-webui",
        required={"model_a": "data.model_id", "model_b": "data.sibling_model_ids[]", "winner": "data.rating"},
        optional={"battle_id": "id", "voted_at": "created_at"},
        clock="either",
        winners={"1": A, "-1": B, "1.0": A, "-1.0": B},
    ),
    Schema(
        "comparia-votes",
        required={"model_a": "model_a_name", "model_b": "model_b_name", "winner": "chosen_model_name"},
        optional={"equal": "both_equal", "battle_id": "conversation_pair_id", "voted_at": "timestamp"},
    ),
    Schema(
        "comparia-turns",
        required={"model_a": "llm_id_a", "model_b": "llm_id_b", "winner": "choice"},
        optional={"voted_at": "voted_at"},
        no_vote=frozenset({"idk"}),
    ),
    Schema(
        "tts-arena",
        required={"model_a": "chosen_model_id", "model_b": "rejected_model_id"},
        rows=({"winner": "=model_a"},),
        optional={"voted_at": "created_at"},
        clock="either",
    ),
    Schema(
        "autoarena",
        required={"model_a": "response_a_id", "model_b": "response_b_id", "winner": "winner"},
        winners={"-": TIE},
    ),
    # Files of evalica and llmfao.
    Schema("evalica", required={"model_a": "left", "model_b": "right", "winner": "winner"}),
    Schema("crowd-kit", required={"model_a": "left", "model_b": "right", "winner": "label"}),
    Schema(
        "lmarena-55k",
        required={
            **_SIDES, "battle_id": "id", "wins_a": "winner_model_a", "wins_b": "winner_model_b", "ties": "winner_tie",
        },
        scale=Scale(1.0, 0.0),
        derive="from_counts",
    ),
    COUNTS,
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
    Schema("coval", required={**_SIDES, "winner": "outcome"}, marks=frozenset({"voter_type"})),
    Schema("minebench", required={**_SIDES, "winner": "choice"}),
    Schema(
        "bigcode-arena",
        required={**_SIDES, "winner": "vote"},
        optional={"voted_at": "timestamp"},
        clock="either",
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
        derive="from_fastchat_log",
    ),
)  # fmt: skip
"""The formats in the order in which they are tried: those with more columns before those with fewer, and those with a
column named winner before those with another one."""
