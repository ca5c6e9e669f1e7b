"""The prefix of the API's paths."""

PREFIX = "/api/v1"
