"""The tables, as SQLAlchemy Core sees them. `migrations/` creates them; a test holds the two together."""

from app.database.tables.answers import answers, invitations, prompts
from app.database.tables.columns import Xid8, metadata
from app.database.tables.loop import (
    appeals,
    decisions,
    leases,
    policies,
    refits,
    snapshot_annotators,
    snapshot_charts,
    snapshot_confidence,
    snapshot_fragility,
    snapshot_matchups,
    snapshot_models,
    snapshot_pair_weights,
    snapshots,
)
from app.database.tables.operations import (
    api_keys,
    audit_log,
    exports,
    file_chunks,
    import_faults,
    imports,
    ingest_tokens,
    sessions,
    sign_in_links,
    webhook_deliveries,
    webhooks,
)
from app.database.tables.votes import (
    annotators,
    battles,
    candidate_sets,
    idempotency_keys,
    model_aliases,
    model_merges,
    models,
    retracted_votes,
    retractions,
    service_secrets,
    votes,
    withdrawn_retractions,
)
