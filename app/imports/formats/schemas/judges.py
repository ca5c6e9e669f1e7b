"""The formats of benchmarks in which a language model judges pairs of answers."""

from app.imports.formats.schemas import derive
from app.imports.formats.schemas.schema import TIE, A, B, Schema

ARENA_HARD = Schema(
    name="arena-hard",
    required={
        "model_a": "model", "model_b": "baseline", "first_score": "games.0.score", "second_score": "games.1.score",
    },
    optional={"battle_id": "uid"},
    winners={
        **dict.fromkeys(("A>B", "A>>B", "B<A", "B<<A"), A),
        **dict.fromkeys(("B>A", "B>>A", "A<B", "A<<B"), B),
        **dict.fromkeys(("A=B", "B=A"), TIE),
    },
    no_vote=frozenset({""}),
    derive=derive.from_two_games,
)  # fmt: skip
"""The judgments of arena-hard-auto: the judge compares each pair twice, the second time with the sides exchanged."""

ALPACA_EVAL = Schema(
    name="alpaca-eval",
    required={"model_a": "generator_1", "model_b": "generator_2", "preference": "preference"},
    winners={"output_1": A, "output_2": B, "draw": TIE},
    no_vote=frozenset({""}),
    derive=derive.from_preference,
)
"""The annotations of AlpacaEval: a preference of 1 is for the first answer, 2 for the second, 1.5 or 0 for neither."""
