"""Webhooks: others are told of what happens, signed, until they have taken it."""
