"""Which columns a vote file may have and what they mean: one entry of `SCHEMAS` per known format."""

from app.imports.formats.schemas.choosing import KNOWN_COLUMNS, SCHEMAS, Form, choose_form, find_schema
from app.imports.formats.schemas.schema import POOLED_ANNOTATOR, Clock, Input, Schema

__all__ = [
    "KNOWN_COLUMNS",
    "POOLED_ANNOTATOR",
    "SCHEMAS",
    "Clock",
    "Form",
    "Input",
    "Schema",
    "choose_form",
    "find_schema",
]
