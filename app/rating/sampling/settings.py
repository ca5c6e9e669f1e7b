from dataclasses import dataclass
from typing import Literal

PairPolicy = Literal["uniform", "balanced", "lmarena", "information", "top_k", "mixed"]


@dataclass(frozen=True)
class SamplingSettings:
    """How the pairs of the next battles are chosen.

    Attributes
    ----------
    policy : the formula of the weights (`app.rating.sampling.policies`); "mixed" is half "information", half "top_k"
    floor : share of the battles that are drawn uniformly over all pairs, in (0, 1]
    k : how many leading models "top_k" tells from the others, at least 1
    """

    policy: PairPolicy = "mixed"
    floor: float = 0.1
    k: int = 3
