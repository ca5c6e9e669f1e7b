"""Addresses of pages that are made from names. Each function is a filter of the templates by its name."""

from urllib.parse import quote


def model_address(name: str) -> str:
    """Return the address of a model's page.

    Browsers take `.` and `..` between slashes as steps through folders, so such a name stands in the query.
    """
    if {".", ".."} & set(name.split("/")):
        return f"/models/?name={quote(name, safe='')}"
    return f"/models/{quote(name)}"


FILTERS = (model_address,)
