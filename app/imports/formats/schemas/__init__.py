"""The formats of vote files, their columns and their meaning: one entry of `SCHEMAS` for each format."""

from app.imports.formats.schemas.choosing import (
    KNOWN_COLUMNS,
    ColumnsError,
    Form,
    choose_form,
    find_schema,
    read_columns,
    read_verdicts,
    with_verdicts,
)
from app.imports.formats.schemas.known import SCHEMAS
from app.imports.formats.schemas.schema import POOLED_ANNOTATOR, Clock, Input, Schema
