"""Where the HTTP interface begins."""

PREFIX = "/api/v1"
