"""The version of the method, which a snapshot names beside that of the code."""

METHOD = 3
"""Raised by every change after which the same votes give other numbers: `tests/refits/test_method.py` finds them."""
