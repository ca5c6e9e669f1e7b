"""The tables, as SQLAlchemy Core sees them. `migrations/` creates them; a test holds the two together."""

from app.database.tables.battles import battles, candidate_sets, service_secrets
from app.database.tables.columns import Xid8, metadata
from app.database.tables.files import exports, file_chunks, import_faults, imports
from app.database.tables.keys import api_keys, ingest_tokens, sessions, sign_in_links
from app.database.tables.loop import appeals, decisions, leases, policies, refits
from app.database.tables.names import annotators, model_aliases, model_merges, models
from app.database.tables.notices import audit_log, webhook_deliveries, webhooks
from app.database.tables.snapshots import (
    snapshot_annotators,
    snapshot_charts,
    snapshot_confidence,
    snapshot_fragility,
    snapshot_matchups,
    snapshot_models,
    snapshot_pair_weights,
    snapshots,
)
from app.database.tables.votes import idempotency_keys, retracted_votes, retractions, votes, withdrawn_retractions

__all__ = [
    "Xid8",
    "annotators",
    "api_keys",
    "appeals",
    "audit_log",
    "battles",
    "candidate_sets",
    "decisions",
    "exports",
    "file_chunks",
    "idempotency_keys",
    "import_faults",
    "imports",
    "ingest_tokens",
    "leases",
    "metadata",
    "model_aliases",
    "model_merges",
    "models",
    "policies",
    "refits",
    "retracted_votes",
    "retractions",
    "service_secrets",
    "sessions",
    "sign_in_links",
    "snapshot_annotators",
    "snapshot_charts",
    "snapshot_confidence",
    "snapshot_fragility",
    "snapshot_matchups",
    "snapshot_models",
    "snapshot_pair_weights",
    "snapshots",
    "votes",
    "webhook_deliveries",
    "webhooks",
    "withdrawn_retractions",
]
