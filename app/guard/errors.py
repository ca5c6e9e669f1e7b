"""Errors that only HTTP requests can cause."""

from app.errors import NotAuthenticatedError, StableArenaError, UnavailableError


class HeadTooLargeError(StableArenaError):
    """The request's target, its headers or both together are larger than the service accepts."""

    code = "head-too-large"
    title = "The head of the request is too large"


class MalformedRequestError(StableArenaError):
    """The request is not valid HTTP."""

    code = "malformed-request"
    title = "The request is not valid HTTP"


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


class TooManyBodiesError(UnavailableError):
    """The bodies of all requests in work have as many bytes as the process may hold."""

    code = "too-many-bodies"
    title = "Too many large requests at once"


class RateLimitedError(StableArenaError):
    """The caller made too many requests; the next one is allowed after `retry_seconds`."""

    code = "rate-limited"
    title = "Too many requests"

    def __init__(self, detail: str, retry_seconds: int) -> None:
        super().__init__(detail)
        self.retry_seconds = retry_seconds


class SignInNeededError(NotAuthenticatedError):
    """The page is for visitors who are signed in, and the request shows no session that lasts."""

    code = "sign-in-needed"
    title = "Sign in first"


class ForgedRequestError(StableArenaError):
    """A request that changes something does not come from a page of the visitor's session."""

    code = "forged-request"
    title = "The request did not come from this page"


class InsecureConnectionError(StableArenaError):
    """Signing in was tried on a connection that others could read."""

    code = "insecure-connection"
    title = "Signing in needs HTTPS"
