"""Errors that only HTTP requests can cause."""

from app.errors import StableArenaError


class MalformedBodyError(StableArenaError):
    """The body is not JSON."""

    code = "malformed-body"
    title = "The body is not valid JSON"


class MethodNotAllowedError(StableArenaError):
    """The path does not have the method; the header Allow names those it has."""

    code = "method-not-allowed"
    title = "The method is not allowed"


class MediaTypeError(StableArenaError):
    """The body's media type is not one that the endpoint reads."""

    code = "media-type"
    title = "The body's media type is not supported"


class BodyTooLargeError(StableArenaError):
    """The body is larger than the service accepts."""

    code = "body-too-large"
    title = "The body is too large"


class BodyTooSlowError(StableArenaError):
    """The body took longer to arrive than the service waits."""

    code = "body-too-slow"
    title = "The body arrives too slowly"


class RateLimitedError(StableArenaError):
    """The caller made too many requests; the next one is allowed after `retry_seconds`."""

    code = "rate-limited"
    title = "Too many requests"

    def __init__(self, detail: str, retry_seconds: int) -> None:
        super().__init__(detail)
        self.retry_seconds = retry_seconds
