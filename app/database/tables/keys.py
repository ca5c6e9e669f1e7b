"""API keys, tokens, sessions of browsers, and one-time sign-in links."""

from sqlalchemy import ARRAY, CheckConstraint, Column, DateTime, ForeignKey, Integer, LargeBinary, Table, Text, Uuid

from app.database.tables.columns import metadata, timestamp

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    timestamp("created_at"),
    timestamp("revoked_at", nullable=True),
    timestamp("expires_at", nullable=True),
    Column("replaced_by", Uuid, ForeignKey("api_keys.id")),
    Column("requests_per_minute", Integer),
    CheckConstraint("requests_per_minute > 0", name="requests_per_minute_positive"),
)

ingest_tokens = Table(
    "ingest_tokens",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False),
    Column("prefix", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("annotator", Text),
    timestamp("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False, index=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), index=True),
    # of a person that a provider signed in; of a session with a key, the key has them
    Column("name", Text),
    Column("scopes", ARRAY(Text)),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("browser", Text, nullable=False),
    timestamp("created_at"),
    timestamp("last_used_at"),
    Column("idle_until", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    CheckConstraint(
        "(api_key_id IS NULL) = (name IS NOT NULL) AND (name IS NULL) = (scopes IS NULL)", name="of_a_key_or_a_person"
    ),
)

sign_in_links = Table(
    "sign_in_links",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    timestamp("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)
