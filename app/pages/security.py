"""What browsers may do with a page: the headers that every page has."""

from dataclasses import dataclass

ALWAYS = {
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class ContentPolicy:
    """The Content-Security-Policy of a page, and the headers that go with it.

    Scripts run only from files, and only with the nonce of the answer. Nothing is loaded from another host.

    Attributes
    ----------
    style_src : where styles may come from
    script_src : where scripts may come from; None for those with the nonce
    form_action : where forms may be sent
    frame_ancestors : which pages may show this one inside a frame
    """

    style_src: str = "'self'"
    script_src: str | None = None
    form_action: str = "'self'"
    frame_ancestors: str = "'none'"

    def headers(self, nonce: str) -> dict[str, str]:
        """Return the headers of an answer with this nonce."""
        directives = {
            "default-src": "'none'",
            "script-src": self.script_src or f"'nonce-{nonce}'",
            "style-src": self.style_src,
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "form-action": self.form_action,
            "frame-ancestors": self.frame_ancestors,
            "base-uri": "'none'",
        }
        return {"Content-Security-Policy": "; ".join(map(" ".join, directives.items())), **ALWAYS}


STRICT = ContentPolicy()
