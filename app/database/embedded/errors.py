from app.errors import UnavailableError


class EmbeddedServerError(UnavailableError):
    """The embedded PostgreSQL cannot be started or stopped; `detail` is one line that says why."""

    public = False
