"""The loop: policies, leases, refits, decisions on annotators, and what refits publish.

`snapshot_annotators`, `snapshot_matchups` and `snapshot_pair_weights` have no foreign keys, because checking them took
half of a publication's time. Snapshots, annotators and models are never deleted; of the last two a trigger refuses it.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import table, texts, timestamp, transaction

policies = table(
    "policies",
    Column("version", Integer, Identity(), primary_key=True),
    Column("settings", JSONB, nullable=False),
    *texts("reason", "created_by"),
    timestamp("created_at"),
    transaction("recorded_in"),
)

leases = table(
    "leases",
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("seconds", Double, nullable=False, server_default="30"),
)

refits = table(
    "refits",
    Column("id", Uuid, primary_key=True),
    *texts("state", "trigger", "requested_by"),
    Column("accept_exclusions", Boolean, nullable=False, server_default="false"),
    timestamp("requested_at"),
    timestamp("started_at", nullable=True),
    timestamp("finished_at", nullable=True),
    Column("epoch", BigInteger),
    Column("progress", Double),
    timestamp("cancel_requested_at", nullable=True),
    Column("seconds", JSONB, nullable=False, server_default="{}"),
    Column("detail", Text),
    CheckConstraint(
        "state IN ('queued', 'reading', 'fitting', 'publishing', 'done', 'failed', 'superseded', 'needs_review', "
        "'cancelled')",
        name="state_known",
    ),
    Index("ix_refits_requested_at", "requested_at"),
)

decisions = table(
    "decisions",
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), nullable=False, index=True),
    *texts("action", "reason", "decided_by"),
    timestamp("decided_at"),
    transaction("recorded_in"),
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id")),
    Column("ability", Double),
    Column("se", Double),
    Column("group_id", Uuid, index=True),
    CheckConstraint("action IN ('exclude', 'reinstate', 'trust', 'dismiss', 'withdraw')", name="action_known"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
)

appeals = table(
    "appeals",
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), nullable=False, index=True),
    *texts("note", "submitted_by"),
    timestamp("submitted_at"),
    CheckConstraint("length(note) > 0", name="note_given"),
)


snapshots = table(
    "snapshots",
    Column("id", Uuid, primary_key=True),
    Column("number", Integer, Identity(), nullable=False, unique=True),
    Column("refit_id", Uuid, ForeignKey("refits.id"), nullable=False, unique=True),
    Column("policy_version", Integer, ForeignKey("policies.version"), nullable=False),
    timestamp("published_at"),
    Column("settings", JSONB, nullable=False),
    Column("diagnostics", JSONB, nullable=False),
    Column("votes_read", BigInteger, nullable=False),
    Column("votes_used", BigInteger, nullable=False),
    Column("votes_sealed", BigInteger),
    *texts("vote_set", "votes_hash", "code_version"),
    timestamp("crowd_pruned_at", nullable=True),
    # annotators who stay flagged or excluded by hysteresis alone
    Column("held", ARRAY(Integer), nullable=False, server_default="{}"),
    Column("judges", ARRAY(Integer), nullable=False, server_default="{}"),  # annotators who were judges then
    Column("unreleased", ARRAY(Integer), nullable=False, server_default="{}"),  # models that had no rank therefore
)

snapshot_models = table(
    "snapshot_models",
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id"), primary_key=True),
    Column("method", Text, primary_key=True),
    Column("tag", Text, primary_key=True, server_default=""),  # "" for all votes, else those with this tag
    Column("model_id", Integer, ForeignKey("models.id"), primary_key=True),
    *(Column(name, Double) for name in ("score", "se", "lower", "upper")),
    *(Column(name, Integer) for name in ("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst")),
    *(Column(name, BigInteger, nullable=False) for name in ("votes", "wins", "ties", "losses")),
    Column("component", Integer, nullable=False),
    Column("identified", Boolean, nullable=False),
    Column("class_rank", Integer),
    Column("provisional", Boolean, nullable=False, server_default="false"),
    Column("above", LargeBinary),  # which models of the leaderboard it is better than: `app.snapshots.differences`
)

snapshot_annotators = table(
    "snapshot_annotators",
    Column("snapshot_id", Uuid, primary_key=True),
    Column("annotator_id", Integer, primary_key=True),
    *(Column(name, Double) for name in ("ability", "se", "shadow_ability", "shadow_se", "probability_low")),
    Column("votes", BigInteger, nullable=False),
    *texts("rule_standing", "standing"),
    Column("evidence", JSONB),
    Column("leans", JSONB),  # feature → what it is worth to the annotator beyond the crowd, Elo points, with interval
    # tie_log: log of the tie propensity; side_lean: Elo points, positive for the left
    *(
        Column(name, Double)
        for name in ("adjusted_ability", "adjusted_se", "tie_log", "tie_se", "side_lean", "side_lean_se")
    ),
    Index("ix_snapshot_annotators_annotator_id", "annotator_id"),
    Index(
        "ix_snapshot_annotators_evidence",
        "snapshot_id",
        text("coalesce(ability, shadow_ability, 'Infinity'::double precision)"),
        "annotator_id",
    ),
)

snapshot_pair_weights = table(
    "snapshot_pair_weights",
    Column("snapshot_id", Uuid, primary_key=True),
    Column("tag", Text, primary_key=True),  # "" for battles without a tag
    Column("model_ids", ARRAY(Integer), nullable=False),
    Column("scores", ARRAY(Double), nullable=False),  # natural units, NaN for none
    Column("weights", LargeBinary, nullable=False),  # half-precision, little-endian, pairs (0, 1), (0, 2), … (1, 2), …
)

snapshot_matchups = table(
    "snapshot_matchups",
    Column("snapshot_id", Uuid, primary_key=True),
    *(Column(name, Integer, primary_key=True) for name in ("model_a_id", "model_b_id")),
    *(Column(name, BigInteger, nullable=False) for name in ("wins_a", "ties", "wins_b")),
    *(Column(name, Double) for name in ("predicted", "lower", "upper")),
    CheckConstraint("model_a_id < model_b_id", name="models_in_order"),
)

snapshot_charts = table(
    "snapshot_charts",
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    *texts("svg", "description"),
)

# Written after the publication. No row: not measured yet.
snapshot_fragility = table(
    "snapshot_fragility",
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id"), primary_key=True),
    Column("pairs", JSONB, nullable=False),  # of neighbours
    Column("best", JSONB, nullable=False),  # the best k, by k
    Column("judges", JSONB(none_as_null=True)),  # beside the people, by their numbers; null unless both vote
)

# How sure the order of a leaderboard is. `app.snapshots.confidence` reads the bytes.
snapshot_confidence = table(
    "snapshot_confidence",
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id"), primary_key=True),
    Column("tag", Text, primary_key=True),  # "" for all votes
    Column("component", Integer, primary_key=True, server_default="0"),
    Column("model_ids", ARRAY(Integer), nullable=False),  # best first
    *(Column(name, ARRAY(Double), nullable=False) for name in ("scores", "freedom")),
    *(Column(name, LargeBinary, nullable=False) for name in ("errors", "doubled", "within")),
    Column("forecasts", ARRAY(Double, dimensions=2), nullable=False),
    Column("votes", BigInteger, nullable=False),
    Column("unscored", Integer, nullable=False),
    Column("unscored_ceiling", Double, nullable=False, server_default="Infinity"),
    Column("provisional", Integer, nullable=False, server_default="0"),  # models
    *(Column(name, Double, nullable=False) for name in ("confidence", "margin")),
)
