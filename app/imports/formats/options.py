"""How a vote file is read: what its user says of it."""

from dataclasses import dataclass
from typing import Literal

from app.votes.rules import OVERALL

DayOrder = Literal["mdy", "dmy"]
ZeroRank = Literal["best", "unranked"]


@dataclass(frozen=True)
class ReadOptions:
    """The options of reading a file.

    Attributes
    ----------
    schema : name of the format; by default the first of `SCHEMAS` that fits the columns.
    annotator_column : the column with the annotator; by default the first known one.
    pool_annotators : treat all votes as those of one annotator.
    columns : columns with other names, `winner=Label,model_a=First`; see `read_columns`.
    annotator_prefix : put before the name of every annotator, so that those of two studies stay apart.
    dates : the order of day and month in dates such as 03/25/2026; by default what the file shows.
    verdict : what outcome words of the file mean, such as `gauche=left`; see `read_verdicts`.
    zero_rank : whether ranks below 1 are the best or none; by default it has to be clear.
    judged : read what judges are compared by too, and keep all votes on a battle: those of a judge count as one.
    criterion : only votes by this criterion make a `VoteFile`; empty: those by every one.
    features : names of what is read of both answers too, such as `length`; see `find_measures`. With `judged` the file
        may lack them.
    keep_features : read what the file has of LMArena's measures, as the service keeps them with a vote.
    by : the column with the category of a vote.
    prompts : the column with what the models were asked; by default the first known one.
    where : what a row must say to be read, such as `status=approved`; see `read_conditions`.
    soft : count graded verdicts as they are: a probability as one, a strong word three times, if not `judged`.
    """

    schema: str | None = None
    annotator_column: str | None = None
    pool_annotators: bool = False
    columns: str | None = None
    annotator_prefix: str = ""
    dates: DayOrder | None = None
    verdict: tuple[str, ...] = ()
    zero_rank: ZeroRank | None = None
    judged: bool = False
    criterion: str = OVERALL
    features: tuple[str, ...] = ()
    keep_features: bool = False
    by: str = ""
    prompts: str = ""
    where: tuple[str, ...] = ()
    soft: bool = False
