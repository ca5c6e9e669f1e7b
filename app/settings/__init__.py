from app.settings.groups import (
    DatabaseSettings,
    ExportSettings,
    FitSettings,
    ImportSettings,
    IngestSettings,
    OidcSettings,
    PageSettings,
    RetentionSettings,
    ServerSettings,
    SessionSettings,
    WebhookSettings,
    WorkerSettings,
)
from app.settings.settings import PREFIX, Settings

__all__ = [
    "PREFIX",
    "DatabaseSettings",
    "ExportSettings",
    "FitSettings",
    "ImportSettings",
    "IngestSettings",
    "OidcSettings",
    "PageSettings",
    "RetentionSettings",
    "ServerSettings",
    "SessionSettings",
    "Settings",
    "WebhookSettings",
    "WorkerSettings",
]
