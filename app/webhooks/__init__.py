"""Webhooks: signed messages about events, sent until the receiver accepts them."""
