from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Answers HEAD as GET (RFC 9110, 9.3.2): the server leaves the body out where the request's method is HEAD.

    The framework's routes know no HEAD. The method is GET only until the answer begins: whoever stands further out,
    the server too, goes on seeing what was asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_as_head(message: Message) -> None:
            scope["method"] = "HEAD"
            await send(message)

        scope["method"] = "GET"
        try:
            await self._app(scope, receive, send_as_head)
        finally:
            scope["method"] = "HEAD"
