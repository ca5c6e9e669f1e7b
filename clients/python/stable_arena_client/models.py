# Written by clients/python/generate.py from the OpenAPI description 4382c3848dd777b1: make docs.

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Anchor(BaseModel):
    """
    A model with a fixed score.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    model: str
    score: Annotated[float, Field(description="Elo points.")]


class Appeal(BaseModel):
    """
    An annotator's note to the reviewers, sent by the arena's backend.
    """

    id: UUID
    annotator_id: UUID
    annotator: Annotated[str, Field(description="The key the votes carry.")]
    note: str
    submitted_by: Annotated[str, Field(description="Name of the API key that submitted it.")]
    submitted_at: AwareDatetime
    open: Annotated[
        bool,
        Field(description="Whether no decision on the annotator has followed yet."),
    ]


class AppealRequest(BaseModel):
    """
    An annotator's note to the reviewers.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    note: Annotated[
        str,
        Field(description="The annotator's words. Do not name a person or a key here."),
    ]


class ImportCounts(BaseModel):
    """
    The number of records of each kind so far; null where a dry run, which only reads the file, cannot know it.
    """

    rows: Annotated[int, Field(description="Records in the file; 0 before they are counted.")] = 0
    created: Annotated[int, Field(description="Votes recorded.")] = 0
    replaced: Annotated[
        int,
        Field(description="Of these, votes that replaced an earlier one, as the policy says."),
    ] = 0
    duplicates: Annotated[
        int | None,
        Field(
            description="Votes left out because they are on record: same battle and annotator, `vote_id`, or content."
        ),
    ] = 0
    retracted: Annotated[
        int | None,
        Field(description="Of these, votes whose stored vote is retracted; it stays retracted."),
    ] = 0
    conflicts: Annotated[
        int | None,
        Field(description="Votes that contradict a stored vote, which does not change."),
    ] = 0
    rejected: Annotated[int, Field(description="Records that are no valid votes.")] = 0
    skipped: Annotated[int, Field(description="Records without a vote.")] = 0


class ImportFault(BaseModel):
    """
    An error in one record.
    """

    record: Annotated[int, Field(description="Number of the record in the file, from 0.")]
    place: Annotated[str, Field(description="Its place in the file: `line 7, winner`.")]
    kind: Literal["invalid", "conflict"]
    detail: str


class MadeToken(BaseModel):
    """
    A token that was just made. It is shown this once.
    """

    id: UUID
    token: Annotated[str, Field(description="What the page sends: Authorization: Bearer …")]
    expires_at: AwareDatetime


class Matchup(BaseModel):
    """
    Results of one model against another in the counted votes, and the prediction of the leaderboard.
    """

    model_a: str
    model_b: str
    votes: int
    wins_a: int
    ties: int
    wins_b: int
    observed: Annotated[
        float | None,
        Field(description="Share of votes that model_a won; a tie is half; null without votes."),
    ]
    predicted: Annotated[
        float | None,
        Field(
            description="Probability that model_a wins with a typical annotator, by the scores; null where one is missing."
        ),
    ]
    lower: Annotated[
        float | None,
        Field(description="Lower end of the prediction's interval; where a model has no score, a one-sided bound."),
    ]
    upper: Annotated[float | None, Field(description="Upper end, likewise.")]
    difference: Annotated[
        Literal["better", "likely-better", "level", "likely-worse", "worse"] | None,
        Field(
            description="What model_a is beside model_b, by the scores. better: the difference is sure with 95 % confidence in all pairs of models together. likely-better: the 95 % interval of this one difference is above 0. level: they cannot be told apart. worse, likely-worse: the other way round. Null where one has no rank, without intervals, and in snapshots from before."
        ),
    ] = None


class Model(BaseModel):
    """
    A contestant.
    """

    name: str
    organization: str | None
    license: str | None
    link: str | None
    released: date | None
    price: Annotated[float | None, Field(description="US dollars for a million tokens.")]
    created_at: AwareDatetime
    archived_at: Annotated[
        AwareDatetime | None,
        Field(description="When it was archived; null for a model that is shown."),
    ]
    archive_reason: Annotated[
        str | None,
        Field(description="Why it was archived; null where no reason was given."),
    ]
    unreleased: Annotated[
        bool,
        Field(description="Whether its name is a codename, which nothing public names."),
    ]
    merged_into: Annotated[
        str | None,
        Field(description="The model for which its votes count; null where they count for it."),
    ]


class ModelConfidence(BaseModel):
    """
    How sure a model's place is.
    """

    model: str
    rank: int
    score: float
    p_best: Annotated[
        float,
        Field(
            description="Probability that it is the best model, for one look: over many refits even one of two equal models comes to a high one. The verdict allows for that."
        ),
    ]
    p_top_k: Annotated[
        float,
        Field(description="Probability that it is among the best k, for one look."),
    ]


class MoreVotes(BaseModel):
    """
    A forecast of how many more votes are needed; null means more than 50 times the votes so far.
    """

    low: Annotated[int | None, Field(description="With a probability of 10 % fewer are enough.")]
    median: int | None
    high: Annotated[int | None, Field(description="With a probability of 10 % more are needed.")]


class NewBattle(BaseModel):
    """
    Who is to judge, and what may be shown.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    annotator: Annotated[
        str | None,
        Field(
            description="Opaque key of the annotator; the same person or judge always has the same. Only who shows the token of an invitation leaves it out."
        ),
    ] = None
    candidates: Annotated[
        list[str] | None,
        Field(description="Names of the models that may be shown; null for every model that is not archived."),
    ] = None
    tags: Annotated[list[str] | None, Field(description="Tags that the vote will have.")] = None
    answers: Annotated[
        bool | None,
        Field(
            description="Whether to draw a prompt too, to which both models' answers lie here. The response has the texts, and the vote gets the prompt's category and language as tags, also as language=en where that is a category of the policy. With a token it always does."
        ),
    ] = None
    category: Annotated[str | None, Field(description="With `answers`: only prompts of this category.")] = None


class NewToken(BaseModel):
    """
    A token to make.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    seconds: Annotated[int, Field(description="How long it works.")] = 900
    annotator: Annotated[str | None, Field(description="The only annotator that it may vote for.")] = None


class OfferedBattle(BaseModel):
    """
    A battle, for the arena's backend or for a browser with a token. A browser is never told the names.
    """

    battle_id: UUID
    left: Annotated[
        str | None,
        Field(description="The model whose answer is shown on the left; a browser with a token is not told."),
    ] = None
    right: Annotated[
        str | None,
        Field(description="The model whose answer is shown on the right; likewise."),
    ] = None
    token: Annotated[str, Field(description="What the browser votes with: one annotator, one vote.")]
    expires_at: AwareDatetime
    prompt: Annotated[
        str | None,
        Field(description="With `answers`: Markdown; with a token HTML that is safe in a page."),
    ] = None
    left_answer: Annotated[str | None, Field(description="What is shown on the left, in the same form.")] = None
    right_answer: Annotated[str | None, Field(description="What is shown on the right, in the same form.")] = None
    votes_left: Annotated[
        int | None,
        Field(description="Votes that the invitation leaves, this one included."),
    ] = None


class OwnAppeal(BaseModel):
    """
    An appeal on the annotator's behalf, and the decision that answered it.
    """

    id: UUID
    note: str
    submitted_at: AwareDatetime
    open: Annotated[bool, Field(description="Whether it still waits for a decision.")]
    outcome: Annotated[
        Literal["exclude", "reinstate", "trust", "dismiss", "withdraw"] | None,
        Field(description="The first decision after it; null while it is open."),
    ]
    decided_at: AwareDatetime | None


class OwnVote(BaseModel):
    """
    One of the annotator's votes, under the models' current names.
    """

    id: UUID
    battle_id: str | None
    criterion: Annotated[
        str | None,
        Field(description="The question that the vote answers; null means overall."),
    ] = None
    model_a: Annotated[
        str,
        Field(description="Of a ranking: of one of its pairs, as model_b and winner are."),
    ]
    model_b: str
    winner: Literal["model_a", "model_b", "tie", "tie (bothbad)"]
    ranking: Annotated[
        list[list[str]] | None,
        Field(description="As it was given; null for a vote on a pair."),
    ] = None
    voted_at: AwareDatetime | None
    received_at: AwareDatetime
    retracted: Annotated[bool, Field(description="Whether it was retracted, and so does not count.")]
    replaced: Annotated[bool, Field(description="Whether a later verdict on the battle took its place.")]


class PageModel(BaseModel):
    items: list[Model]
    next_cursor: Annotated[
        str | None,
        Field(description="Passed as `cursor`, gives the next page; null on the last."),
    ]


class PageOwnVote(BaseModel):
    items: list[OwnVote]
    next_cursor: Annotated[
        str | None,
        Field(description="Passed as `cursor`, gives the next page; null on the last."),
    ]


class Place(BaseModel):
    """
    A model's place on another leaderboard of the same snapshot; null where it has none or has no score.
    """

    rank: int | None = None
    score: float | None = None


class Policy(BaseModel):
    """
    The thresholds for refits, and for flagging and excluding annotators.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    min_votes: Annotated[
        int,
        Field(description="δ: annotators with more than this many votes enter the fit."),
    ] = 50
    min_ability: Annotated[
        float,
        Field(description="ε: annotators at or below this ability are flagged or excluded; 1 is the mean."),
    ] = 0.2
    min_probability: Annotated[
        float,
        Field(
            description="Probability of an ability at or below ε from which the rule evidence flags. Lower finds more of the bad, and wrongs more of the honest. The test coin flags besides, from the odds of its ratio."
        ),
    ] = 0.95
    prior_sd: Annotated[
        float | Literal["estimated"] | None,
        Field(
            description="Spread of honest annotators' abilities around 1. estimated: from the votes. A number: the spread that is assumed before any vote, and counts as four annotators. null: the paper's estimator, without a limit on influence."
        ),
    ] = "estimated"
    influence_limit: Annotated[
        float | None,
        Field(
            description="Votes of an annotator on a model that count in full: this multiple of those of the model's mean judge, and five more. Further votes weigh less, and so do those of able annotators. null: no limit."
        ),
    ] = 1.25
    flag_rule: Annotated[
        Literal["threshold", "evidence"],
        Field(
            description="Which annotators are flagged or excluded. threshold: those with an ability at or below ε (the paper's rule). evidence: those whose ability lies at or below ε with a probability of min_probability or more, beside 20 judges or more, and those that a test on the votes finds; favour and against flag, and never exclude."
        ),
    ] = "evidence"
    evidence_ratio: Annotated[
        float,
        Field(
            description="Ratio from which a test flags: 100 times the odds of a behaviour against honesty. 100 flags what is likelier than not."
        ),
    ] = 100.0
    evidence_tests: Annotated[list[str], Field(description="The tests that are run on the votes.")] = [
        "coin",
        "equal",
        "follower",
        "favour",
        "against",
        "side",
    ]
    release_margin: Annotated[
        float,
        Field(
            description="A flag or an exclusion ends once the ability is this much above ε, and the evidence is weak too. 0 in `rate` and in a notebook."
        ),
    ] = 0.1
    on_low_ability: Annotated[
        Literal["flag", "exclude"],
        Field(
            description="flag: flagged annotators stay in the fit. exclude: they are left out, unless only a test about a model finds them."
        ),
    ] = "flag"
    max_excluded_share: Annotated[
        float,
        Field(description="A refit that would newly exclude a larger share of the votes waits for an admin."),
    ] = 0.1
    interval: Annotated[
        Literal["clustered", "sandwich", "information", "none"],
        Field(
            description="How the scores' intervals are made: clustered by annotator, sandwich by vote, information or none."
        ),
    ] = "clustered"
    decision_confidence: Annotated[
        float,
        Field(description="Confidence of the verdict that the best models are decided, over all refits together."),
    ] = 0.95
    equal_margin: Annotated[
        float,
        Field(description="Elo points; two models that are certainly this close or closer are practically equal."),
    ] = 20.0
    min_board_annotators: Annotated[
        int,
        Field(description="A first leaderboard is published once this many annotators have more than min_votes votes."),
    ] = 5
    min_board_votes: Annotated[
        int,
        Field(description="A first leaderboard is published once those annotators have this many votes."),
    ] = 200
    min_model_votes: Annotated[
        int,
        Field(
            description="A model with fewer counted votes is provisional: it has no rank. 0 in `rate` and in a notebook."
        ),
    ] = 30
    min_model_annotators: Annotated[
        int,
        Field(
            description="A model with counted votes of fewer annotators is provisional. 0 in `rate` and in a notebook."
        ),
    ] = 5
    max_interval_width: Annotated[
        float | None,
        Field(
            description="Elo points; a model whose interval is wider is provisional. null: no width makes it so. No limit in `rate` and in a notebook."
        ),
    ] = 800.0
    base: Annotated[
        float,
        Field(description="Elo points at which the mean of the models with enough votes sits."),
    ] = 1000.0
    anchor: Annotated[
        Anchor | None,
        Field(
            description="A model and the score that it keeps, in place of base; null for none. A refit without it fails."
        ),
    ] = None
    refit_interval_seconds: Annotated[
        float,
        Field(description="Time between scheduled refits. They run only if there is something new."),
    ] = 600
    on_conflict: Annotated[
        Literal["reject", "replace"],
        Field(
            description="Another verdict by the same annotator on the same battle is refused, or replaces the first one."
        ),
    ] = "reject"
    max_votes_per_day: Annotated[
        int | None,
        Field(description="How many votes of one annotator count in one day (UTC); null for all."),
    ] = None
    refit_after_votes: Annotated[
        int | None,
        Field(description="This many new votes start a refit before the interval has passed; null for never."),
    ] = None
    stale_after_seconds: Annotated[
        float,
        Field(description="A leaderboard older than this is stale while votes wait that are not in it."),
    ] = 7200
    dimensions: Annotated[
        dict[str, Any],
        Field(
            description='By what votes fall into categories: `{"language": ["fr", "en"]}` makes leaderboards of the tags `language=fr` and `language=en`. At most 31 categories in all.'
        ),
    ] = {}
    category_weights: Annotated[
        dict[str, Any],
        Field(
            description='Weights of the categories of one dimension in the leaderboard `weighted`: `{"language=fr": 1, "language=en": 3}`; or of criteria: `{"criterion=helpful": 1, "criterion=overall": 2}`.'
        ),
    ] = {}
    max_tag_boards: Annotated[
        int,
        Field(
            description="Without dimensions: how many tags get a leaderboard of their own, those with the most votes."
        ),
    ] = 20
    battle_policy: Annotated[
        Literal["uniform", "balanced", "lmarena", "information", "top_k", "mixed"],
        Field(
            description="Which pairs of models battles show. uniform: all alike. balanced: models with few votes. lmarena: Chatbot Arena's rule. information: pairs that narrow the intervals of all scores most. top_k: pairs that tell the first battle_top_k models from the others. mixed: half information, half top_k."
        ),
    ] = "mixed"
    battle_floor: Annotated[
        float,
        Field(description="Share of the battles that is drawn uniformly over all pairs."),
    ] = 0.1
    battle_top_k: Annotated[
        int,
        Field(description="How many leading models the battle policies top_k and mixed tell from the others."),
    ] = 3
    battle_repeat_gap: Annotated[
        int,
        Field(description="For how many battles an annotator does not see the same pair again."),
    ] = 20
    leaderboard_of: Annotated[
        Literal["people", "judges", "all"],
        Field(
            description="Whose votes make the leaderboard where people and judges vote. Until min_board_annotators of them have more than min_votes votes it is of all."
        ),
    ] = "people"
    style_features: Annotated[
        list[str],
        Field(
            description="What the leaderboards style and judges control for: features of votes, such as length, and side, which every vote has."
        ),
    ] = []
    sealed_only: Annotated[
        bool,
        Field(description="Whether refits count only sealed votes, on pairs that the service drew."),
    ] = False
    max_unreleased: Annotated[
        int | None,
        Field(description="Unreleased models that an organization may have; null for no limit."),
    ] = None
    calibration_share: Annotated[
        float,
        Field(
            description="Share of a new annotator's battles, up to min_votes votes, that is drawn to learn about them."
        ),
    ] = 0.2


class PolicySettings(BaseModel):
    """
    A whole policy.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    settings: Policy


class PolicyVersion(BaseModel):
    """
    A policy on record: its settings, who set it, when and why.
    """

    version: Annotated[int, Field(description="Grows by one with every change.")]
    settings: Policy
    reason: Annotated[str, Field(description="Why it was set.")]
    created_by: Annotated[str, Field(description="Name of the key it was set with.")]
    created_at: AwareDatetime


class ProblemFieldError(BaseModel):
    """
    One place in the input and what is wrong there.
    """

    pointer: Annotated[str, Field(description="JSON pointer into the body, or /name of a parameter.")]
    detail: Annotated[str, Field(description="What is wrong there.")]


class RankedVote(BaseModel):
    """
    One annotator's order of several models: one vote, which the fit reads as a vote for each pair of them.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    ranking: Annotated[
        list[list[str]],
        Field(
            description='The models in groups, the best first; those of one group are equal. 2 to 20 models, each once. The best of several is `[["best"], ["second", "third"]]`.'
        ),
    ]
    annotator: Annotated[
        str,
        Field(description="Opaque key of the annotator; the same person or judge always has the same."),
    ]
    annotator_kind: Annotated[
        Literal["human", "judge"] | None,
        Field(description="human, or judge: an LLM. The first vote that says it holds; another kind is refused later."),
    ] = None
    battle_id: Annotated[
        str | None,
        Field(description="The pairing that was judged; an annotator judges it once by each criterion."),
    ] = None
    criterion: Annotated[
        str | None,
        Field(
            description="The question that the vote answers, such as `accuracy`; by default `overall`, the one question of the main leaderboard. Each other criterion has a leaderboard of its own, `criterion=accuracy`."
        ),
    ] = None
    voted_at: Annotated[
        AwareDatetime | None,
        Field(
            description="When the vote was cast, with its time zone; at most 5 minutes ahead of the service's clock. May be called `timestamp` too."
        ),
    ] = None
    tags: Annotated[
        list[str] | None,
        Field(description="Words to group votes by; those that begin with `criterion=` have no leaderboard."),
    ] = None
    prompt: Annotated[
        str | None,
        Field(
            description="What the models were asked: the text, or an id of it. Votes on one prompt err together, and the intervals allow for it. Only a key of it is kept."
        ),
    ] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Field(
            description="Anything else worth keeping: at most 16000 characters as JSON, and 100 values at all levels."
        ),
    ] = None


class RecordedVoteAnswer(BaseModel):
    """
    A vote that is on record.
    """

    id: Annotated[UUID, Field(description="The vote on record; for a duplicate, the first one.")]
    status: Annotated[
        Literal["created", "duplicate", "conflict", "invalid"],
        Field(description="created or duplicate."),
    ]
    detail: Annotated[str | None, Field(description="Says if the vote on record is retracted.")] = None
    replaces: Annotated[
        UUID | None,
        Field(description="The annotator's earlier vote that this one replaces."),
    ] = None
    pairs: Annotated[
        int | None,
        Field(description="Of a ranking that was created: the pairs of models that it orders."),
    ] = None
    left: Annotated[
        str | None,
        Field(description="Of a vote on a sealed battle: the model on the left."),
    ] = None
    right: Annotated[
        str | None,
        Field(description="Of a vote on a sealed battle: the model on the right."),
    ] = None


class RowChange(BaseModel):
    """
    One model in both snapshots; fields are null where the model is missing from one or has no score.

    Ranks and points compare only within a component. A component's number means nothing outside its snapshot.
    """

    model: str
    kind: Literal["stayed", "entered", "left"]
    score_before: float | None = None
    score_after: float | None = None
    comparable: Annotated[
        bool | None,
        Field(
            description="Whether the model's component holds the same models in both snapshots; models that are in only one snapshot do not matter. Null for a model that is in only one snapshot."
        ),
    ] = None
    change: Annotated[
        float | None,
        Field(description="Elo points; null where the model is not `comparable`."),
    ] = None
    beyond_interval: Annotated[
        bool | None,
        Field(description="Whether the later score lies outside the earlier interval; null where `change` is."),
    ] = None
    rank_before: Annotated[
        int | None,
        Field(description="1 is best, within the component of that snapshot."),
    ] = None
    rank_after: int | None = None
    component_before: Annotated[int | None, Field(description="The component's number in the earlier snapshot.")] = None
    component_after: Annotated[int | None, Field(description="The component's number in the later snapshot.")] = None
    identified_before: Annotated[bool | None, Field(description="Whether the votes determined the score.")] = None
    identified_after: bool | None = None
    votes_before: int = 0
    votes_after: int = 0


class SealedVoteBody(BaseModel):
    """
    A verdict on a sealed battle. The token is all that its holder needs.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    token: Annotated[str, Field(description="The token of the battle.")]
    winner: Annotated[
        Literal["left", "right", "tie", "bothbad", "both_bad"],
        Field(description="The side with the better answer; bothbad, or both_bad, if both answers were bad."),
    ]
    annotator: Annotated[
        str | None,
        Field(description="Key of the annotator that the battle was drawn for. Another one is refused."),
    ] = None
    reveal: Annotated[
        bool | None,
        Field(
            description="false: the answer does not name the models, and the vote can be taken back for some seconds; sent again without, it names them."
        ),
    ] = None


class Skip(BaseModel):
    """
    Why a battle gets no vote.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    reason: Annotated[
        Literal["skip", "identity_leaked", "failed"],
        Field(
            description="skip: the annotator did not want to judge. identity_leaked: an answer named its model. failed: an answer could not be made."
        ),
    ]
    token: Annotated[
        str | None,
        Field(description="The battle's token, from a sender without a key."),
    ] = None


class SkippedBattle(BaseModel):
    """
    A battle that ended without a vote. The models stay sealed.
    """

    battle_id: UUID
    skip_reason: Annotated[
        Literal["skip", "identity_leaked", "failed"],
        Field(description="The reason that was given first."),
    ]
    ended_at: AwareDatetime


class Snapshot(BaseModel):
    """
    A snapshot without its rows: everything that is needed to make it again.
    """

    id: UUID
    number: Annotated[int, Field(description="Grows with every publication; gaps are possible.")]
    published_at: AwareDatetime
    policy_version: int
    votes_read: Annotated[
        int,
        Field(description="Votes on record when it was made; of a ranking, its pairs."),
    ]
    votes_used: Annotated[
        int,
        Field(description="Of these, the ones that count. `diagnostics.rankings` has both by whole votes."),
    ]
    votes_sealed: Annotated[
        int | None,
        Field(
            description="How many of these are sealed, cast by a battle's token; null for snapshots from before there were."
        ),
    ]
    votes_hash: Annotated[
        str,
        Field(description="SHA-256 of the votes read, the same for the same votes in any order."),
    ]
    refit_id: UUID
    settings: Annotated[dict[str, Any], Field(description="The settings the fit ran with.")]
    diagnostics: Annotated[
        dict[str, Any],
        Field(description="What the refit reports about the fit and the votes."),
    ]
    vote_set: Annotated[
        str,
        Field(description="The database transactions whose votes were read, as a pg_snapshot."),
    ]
    code_version: str
    crowd_pruned_at: Annotated[
        AwareDatetime | None,
        Field(
            description="When its matchups and most of its annotators' rows were deleted to save space; null if never. Rows are kept whose standing differs from the snapshot before or after, or on which a decision was taken."
        ),
    ]


class SnapshotDetail(BaseModel):
    """
    A snapshot without its rows, and the leaderboards that it has.
    """

    id: UUID
    number: Annotated[int, Field(description="Grows with every publication; gaps are possible.")]
    published_at: AwareDatetime
    policy_version: int
    votes_read: Annotated[
        int,
        Field(description="Votes on record when it was made; of a ranking, its pairs."),
    ]
    votes_used: Annotated[
        int,
        Field(description="Of these, the ones that count. `diagnostics.rankings` has both by whole votes."),
    ]
    votes_sealed: Annotated[
        int | None,
        Field(
            description="How many of these are sealed, cast by a battle's token; null for snapshots from before there were."
        ),
    ]
    votes_hash: Annotated[
        str,
        Field(description="SHA-256 of the votes read, the same for the same votes in any order."),
    ]
    refit_id: UUID
    settings: Annotated[dict[str, Any], Field(description="The settings the fit ran with.")]
    diagnostics: Annotated[
        dict[str, Any],
        Field(description="What the refit reports about the fit and the votes."),
    ]
    vote_set: Annotated[
        str,
        Field(description="The database transactions whose votes were read, as a pg_snapshot."),
    ]
    code_version: str
    crowd_pruned_at: Annotated[
        AwareDatetime | None,
        Field(
            description="When its matchups and most of its annotators' rows were deleted to save space; null if never. Rows are kept whose standing differs from the snapshot before or after, or on which a decision was taken."
        ),
    ]
    boards: Annotated[
        list[
            Literal[
                "am-elo", "m-elo", "m-elo-all", "elo", "people", "judges", "all", "people+judges", "style", "weighted"
            ]
        ],
        Field(description="The methods with a leaderboard of all votes."),
    ]
    tags: Annotated[list[str], Field(description="The tags with an am-elo leaderboard, by name.")]


class SnapshotHead(BaseModel):
    """
    The names of a snapshot, and the votes behind it.
    """

    id: UUID
    number: Annotated[int, Field(description="Grows with every publication; gaps are possible.")]
    published_at: AwareDatetime
    policy_version: int
    votes_read: Annotated[
        int,
        Field(description="Votes on record when it was made; of a ranking, its pairs."),
    ]
    votes_used: Annotated[
        int,
        Field(description="Of these, the ones that count. `diagnostics.rankings` has both by whole votes."),
    ]
    votes_sealed: Annotated[
        int | None,
        Field(
            description="How many of these are sealed, cast by a battle's token; null for snapshots from before there were."
        ),
    ]
    votes_hash: Annotated[
        str,
        Field(description="SHA-256 of the votes read, the same for the same votes in any order."),
    ]


class StandingChange(BaseModel):
    """
    One annotator whose standing would change.
    """

    id: UUID
    annotator: Annotated[str, Field(description="The key the votes carry.")]
    before: Annotated[
        Literal["pending", "active", "flagged", "excluded", "trusted"],
        Field(description="Without the previewed policy: after the next refit, if one is compared with."),
    ]
    after: Literal["pending", "active", "flagged", "excluded", "trusted"]
    ability: Annotated[
        float | None,
        Field(description="Under the previewed policy; null outside its fit."),
    ]
    shadow_ability: float | None
    votes: int


class UndecidedPair(BaseModel):
    """
    A model among the best k and one that is not, whose order is not certain.
    """

    above: str
    below: str
    gap: Annotated[float, Field(description="Elo points between the two.")]
    half_width: Annotated[float, Field(description="The order is certain once the gap exceeds this.")]
    equal: Annotated[bool, Field(description="Whether the two are certainly within the margin.")]
    more_votes: Annotated[
        MoreVotes,
        Field(description="Until the order of the two is certain, or that they are within the margin."),
    ]


class Vote(BaseModel):
    """
    One annotator's verdict on one pair of models.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    model_a: Annotated[str, Field(description="Name of one model.")]
    model_b: Annotated[str, Field(description="Name of the other model.")]
    winner: Annotated[
        Literal["model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "bothbad"],
        Field(description="The model with the better answer; tie (bothbad), or both_bad, if both answers were bad."),
    ]
    annotator: Annotated[
        str,
        Field(description="Opaque key of the annotator; the same person or judge always has the same."),
    ]
    annotator_kind: Annotated[
        Literal["human", "judge"] | None,
        Field(description="human, or judge: an LLM. The first vote that says it holds; another kind is refused later."),
    ] = None
    battle_id: Annotated[
        str | None,
        Field(description="The pairing that was judged; an annotator judges it once by each criterion."),
    ] = None
    criterion: Annotated[
        str | None,
        Field(
            description="The question that the vote answers, such as `accuracy`; by default `overall`, the one question of the main leaderboard. Each other criterion has a leaderboard of its own, `criterion=accuracy`."
        ),
    ] = None
    voted_at: Annotated[
        AwareDatetime | None,
        Field(
            description="When the vote was cast, with its time zone; at most 5 minutes ahead of the service's clock. May be called `timestamp` too."
        ),
    ] = None
    tags: Annotated[
        list[str] | None,
        Field(description="Words to group votes by; those that begin with `criterion=` have no leaderboard."),
    ] = None
    prompt: Annotated[
        str | None,
        Field(
            description="What the models were asked: the text, or an id of it. Votes on one prompt err together, and the intervals allow for it. Only a key of it is kept."
        ),
    ] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Field(
            description="Anything else worth keeping: at most 16000 characters as JSON, and 100 values at all levels."
        ),
    ] = None
    features: Annotated[
        dict[str, Any] | None,
        Field(
            description='What the answers of model_a and model_b measure, for style control, as `{"length": [120, 80]}`: at most 16 names.'
        ),
    ] = None


class VoteBatch(BaseModel):
    """
    Many votes. An invalid one does not touch the others.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    votes: list[Vote | RankedVote]


class VoteCounts(BaseModel):
    """
    How many votes of a batch have each status.
    """

    created: int = 0
    duplicate: int = 0
    conflict: int = 0
    invalid: int = 0


class VoteResult(BaseModel):
    """
    What became of one vote of a batch.
    """

    index: Annotated[int, Field(description="Place in the batch, from 0.")]
    status: Literal["created", "duplicate", "conflict", "invalid"]
    id: Annotated[
        UUID | None,
        Field(description="The vote on record; for a duplicate or a conflict, the earlier one."),
    ] = None
    replaces: Annotated[
        UUID | None,
        Field(description="The annotator's earlier vote that this one replaces."),
    ] = None
    pairs: Annotated[
        int | None,
        Field(description="Of a ranking that was created: the pairs of models that it orders."),
    ] = None
    detail: Annotated[str | None, Field(description="Why it was not recorded.")] = None
    errors: Annotated[
        list[ProblemFieldError] | None,
        Field(description="The places in an invalid vote."),
    ] = None


class VotesSummary(BaseModel):
    """
    The annotator's votes so far, counted or not.
    """

    votes: Annotated[int, Field(description="Rankings too, which none of the outcomes below counts.")]
    model_a: int
    model_b: int
    tie: int
    tie_bothbad: int
    models: Annotated[int, Field(description="Different models the votes named.")]
    retracted: Annotated[
        int,
        Field(description="Of the votes, those that are retracted or replaced by later ones."),
    ]
    first_received_at: AwareDatetime | None
    last_received_at: AwareDatetime | None


class BatchAnswer(BaseModel):
    """
    One result for each vote, in order.
    """

    results: list[VoteResult]
    counts: VoteCounts


class Import(BaseModel):
    """
    The import of a file.
    """

    id: UUID
    state: Literal["queued", "running", "done", "failed"]
    file_name: str
    sha256: Annotated[
        str,
        Field(description="Hash of the file, in hexadecimal; a file is imported once."),
    ]
    bytes: Annotated[int | None, Field(description="Size of the uploaded file.")]
    options: dict[str, Any]
    rows_done: Annotated[int, Field(description="Records processed, of `rows_total`.")]
    rows_total: Annotated[
        int | None,
        Field(description="Records in the file; null before they are counted."),
    ]
    counts: ImportCounts
    notes: Annotated[
        list[str],
        Field(description="What was noticed once it was checked: times, names that look alike."),
    ] = []
    detail: Annotated[str | None, Field(description="Why it failed.")]
    undone_by: Annotated[
        UUID | None,
        Field(description="The retraction that undid it; null while its votes count."),
    ] = None
    requested_by: str
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None


class ImportDetails(BaseModel):
    """
    An import with its first errors.
    """

    id: UUID
    state: Literal["queued", "running", "done", "failed"]
    file_name: str
    sha256: Annotated[
        str,
        Field(description="Hash of the file, in hexadecimal; a file is imported once."),
    ]
    bytes: Annotated[int | None, Field(description="Size of the uploaded file.")]
    options: dict[str, Any]
    rows_done: Annotated[int, Field(description="Records processed, of `rows_total`.")]
    rows_total: Annotated[
        int | None,
        Field(description="Records in the file; null before they are counted."),
    ]
    counts: ImportCounts
    notes: Annotated[
        list[str],
        Field(description="What was noticed once it was checked: times, names that look alike."),
    ] = []
    detail: Annotated[str | None, Field(description="Why it failed.")]
    undone_by: Annotated[
        UUID | None,
        Field(description="The retraction that undid it; null while its votes count."),
    ] = None
    requested_by: str
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    n_faults: Annotated[
        int,
        Field(description="Errors stored, at most 100,000; `…/errors` lists all of them."),
    ]
    faults: Annotated[list[ImportFault], Field(description="The first errors.")]


class LeaderboardConfidence(BaseModel):
    """
    Whether the votes are enough to say which models are the best k.
    """

    snapshot: SnapshotHead
    tag: Annotated[
        str | None,
        Field(
            description="Of a category, such as language=fr, or a criterion, such as criterion=helpful. Where a category has few votes, its scores are drawn to those of all votes. Null for the leaderboard of all votes."
        ),
    ]
    k: int
    confidence: Annotated[
        float,
        Field(description="Of the verdict, over all refits together: the policy's decision_confidence."),
    ]
    margin: Annotated[
        float,
        Field(description="Elo points within which models are practically equal: the policy's equal_margin."),
    ]
    verdict: Annotated[
        Literal["decided", "not-yet", "equal"],
        Field(
            description="decided: these are the best k. equal: where that is not certain, the models are practically equal, and more votes are not worth their cost. not-yet: neither."
        ),
    ]
    sentence: Annotated[str, Field(description="The verdict in words, for a page.")]
    leaders: Annotated[
        list[str],
        Field(description="The k models with the highest scores, best first; archived ones count."),
    ]
    votes: Annotated[int, Field(description="Counted votes on the ranked models.")]
    more_votes: Annotated[
        MoreVotes | None,
        Field(
            description="Until the verdict is `decided` or `equal`, if battles are chosen as they are now; null when it is. Too few for a category: what its scores have from other votes counts as its own."
        ),
    ]
    unscored: Annotated[
        int,
        Field(
            description="Models that only won or only lost, so that they have no score. While one of them may belong among the best k, the verdict is `not-yet`."
        ),
    ]
    provisional: Annotated[
        int,
        Field(
            description="Models without a rank: with too few votes, or unreleased. The verdict is on the ranked ones only."
        ),
    ]
    models: Annotated[
        list[ModelConfidence],
        Field(description="The largest component's ranked models, best first, without archived ones."),
    ]
    undecided_pairs: Annotated[int, Field(description="How many pairs are not certain.")]
    undecided: Annotated[
        list[UndecidedPair],
        Field(description="At most 100 of them, the closest first."),
    ]


class LeaderboardRow(BaseModel):
    """
    One model on the leaderboard. A request that names `fields` gets those alone, and `model`.
    """

    model: str
    score: Annotated[
        float | None,
        Field(description="Elo points; null where the votes do not determine it."),
    ] = None
    se: Annotated[
        float | None,
        Field(description="Standard error of the score; for elo, over the orders of the votes."),
    ] = None
    lower: Annotated[
        float | None,
        Field(description="Lower end of the interval; null where the votes give none."),
    ] = None
    upper: Annotated[
        float | None,
        Field(description="Upper end of the interval; null where the votes give none."),
    ] = None
    rank: Annotated[
        int | None,
        Field(
            description="1 is best, within the component; a model without a score has the place that its wins and losses give it. Null for a provisional model, and without intervals for a model without a score."
        ),
    ] = None
    best_rank: Annotated[
        int | None,
        Field(
            description="1 + the number of models that are certainly above it, by the interval of each difference; null without a rank."
        ),
    ] = None
    worst_rank: Annotated[
        int | None,
        Field(description="The number of models less those that are certainly below it."),
    ] = None
    rank_set_best: Annotated[
        int | None,
        Field(
            description="Best rank of the model's rank set: the sets of all models hold their true ranks together. Null without intervals, and in snapshots from before rank sets were published."
        ),
    ] = None
    rank_set_worst: Annotated[int | None, Field(description="Worst rank of the model's rank set.")] = None
    class_rank: Annotated[
        int | None,
        Field(
            description="1 is the best class, within the component: the leader and every model that it is not certainly above, by the interval of the difference. The next class is made in the same way from the models without one. Null without intervals, and in snapshots from before classes were published."
        ),
    ] = None
    votes: int | None = None
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    component: Annotated[
        int | None,
        Field(description="Models compare only within a component; component 0 has the most votes."),
    ] = None
    identified: Annotated[bool | None, Field(description="Whether the votes determine the score.")] = None
    provisional: Annotated[
        bool,
        Field(
            description="Whether it has too few votes or annotators, or too wide an interval, for a rank: the policy's min_model_votes, min_model_annotators and max_interval_width. The others are ranked without it."
        ),
    ] = False
    organization: Annotated[str | None, Field(description="Who made the model, where known.")] = None
    license: str | None = None
    link: str | None = None
    tied: Annotated[
        bool | None,
        Field(
            description="Whether a handful of votes decides the order with the model above. Null for the first model, on every leaderboard except am-elo of all votes, and until it is computed, soon after the publication."
        ),
    ] = None
    tied_with: Annotated[str | None, Field(description="The model above, where `tied`.")] = None
    compared: Annotated[
        dict[str, Place],
        Field(
            description="The model's place on the leaderboards that `compare` names.",
            validate_default=True,
        ),
    ] = {}


class MatchupPage(BaseModel):
    """
    Pairs of models in the counted votes of one snapshot.
    """

    items: list[Matchup]
    next_cursor: Annotated[
        str | None,
        Field(description="Passed as `cursor`, gives the next page; null on the last."),
    ]
    snapshot: SnapshotHead


class OwnStanding(BaseModel):
    """
    An annotator's standing, votes and appeals, for the annotator alone.
    """

    standing: Annotated[
        Literal["pending", "active", "flagged", "excluded", "trusted"],
        Field(description="By the newest snapshot; `pending` before the first vote."),
    ]
    votes_needed: Annotated[
        int,
        Field(description="How many more votes it takes until the annotator counts; 0 for enough."),
    ]
    votes_summary: VotesSummary
    appeals: Annotated[list[OwnAppeal], Field(description="The last 100, the newest first.")]


class PageSnapshot(BaseModel):
    items: list[Snapshot]
    next_cursor: Annotated[
        str | None,
        Field(description="Passed as `cursor`, gives the next page; null on the last."),
    ]


class PolicyPreview(BaseModel):
    """
    What a policy would do to the votes on record now; nothing of it has happened.
    """

    policy_version: Annotated[int, Field(description="The policy in force, which this one was compared with.")]
    settings: Annotated[Policy, Field(description="The policy previewed.")]
    compared_with: Annotated[
        Literal["next refit", "snapshot", "nothing"],
        Field(
            description="next refit: what it would publish under the policy in force, because votes, decisions or a policy wait for it. snapshot: the newest, because nothing waits, that refit would fail, or this is the policy in force. nothing: there is no leaderboard."
        ),
    ]
    snapshot: Annotated[int | None, Field(description="Number of the newest snapshot.")]
    votes_read: int
    votes_used: int
    newly_excluded_share: Annotated[
        float,
        Field(description="Share of the votes past δ that would be newly excluded."),
    ]
    needs_review: Annotated[bool, Field(description="Whether the refit would wait for an admin.")]
    review_reason: Annotated[
        str | None,
        Field(
            description="Why it would wait: because of that share, or because the annotators are in two camps. Null where it would not."
        ),
    ]
    counts: Annotated[
        dict[str, int],
        Field(
            description="How many annotators would change to these, each counted once. back_in: to active or trusted, from pending or excluded. cleared: from flagged to active."
        ),
    ]
    annotators: Annotated[
        list[StandingChange],
        Field(description="Those whose standing would change, most votes first."),
    ]
    summary: Annotated[list[str], Field(description="How the leaderboard would move, in words.")]
    models: Annotated[
        list[RowChange],
        Field(description="The leaderboard against the one that it is compared with."),
    ]


class Problem(BaseModel):
    """
    Why a request failed (RFC 9457). Some types have further members.
    """

    model_config = ConfigDict(
        extra="allow",
    )
    type: Annotated[str, Field(description="The type: /problems/ and its code.")]
    title: Annotated[str, Field(description="The same for every occurrence of the type.")]
    status: Annotated[int, Field(description="The HTTP status.")]
    detail: Annotated[str, Field(description="What happened this time.")]
    instance: Annotated[str, Field(description="The path of the request, percent-encoded.")]
    request_id: Annotated[
        str,
        Field(description="Also in the X-Request-ID header and in the service's log."),
    ]
    errors: Annotated[
        list[ProblemFieldError],
        Field(description="The places in the input that are wrong.", validate_default=True),
    ] = []


class Leaderboard(BaseModel):
    """
    A published leaderboard, how it was made, and how fresh it is.
    """

    published_at: AwareDatetime
    age_seconds: Annotated[float, Field(description="Since it was published, by the database's clock.")]
    votes_not_in_board: Annotated[int, Field(description="Votes recorded since; the next refit reads them.")]
    stale: Annotated[
        bool,
        Field(
            description="Whether votes wait and the leaderboard is older than the policy's stale_after_seconds. Also true while published_at lies in the future: the database's clock was ahead, and the age is not known."
        ),
    ]
    next_refit_due_at: Annotated[
        AwareDatetime | None,
        Field(
            description="Time of the next scheduled refit; in the past while it runs. Null while nothing is new: no vote, retraction, merge, decision or policy."
        ),
    ]
    snapshot: SnapshotHead
    method: Literal[
        "am-elo", "m-elo", "m-elo-all", "elo", "people", "judges", "all", "people+judges", "style", "weighted"
    ]
    tag: Annotated[
        str | None,
        Field(
            description="Of a category, such as language=fr, or a criterion, such as criterion=helpful. Where a category has few votes, its scores are drawn to those of all votes. Null for the leaderboard of all votes."
        ),
    ]
    of: Annotated[
        Literal["people", "judges", "all"],
        Field(description="Whose votes: of people, of judges (LLMs), or of all."),
    ]
    models: list[LeaderboardRow]
    archived: Annotated[
        int,
        Field(description="Archived models, which are not in `models`; ranks count them."),
    ]
    diagnostics: Annotated[
        dict[str, Any] | None,
        Field(
            description="How the fit went; `GET /snapshots/{reference}` has it too. Absent where `fields` does not name it."
        ),
    ] = None
