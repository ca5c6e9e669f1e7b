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
from app.settings.settings import PREFIX, Settings, read_settings, setting_names
