"""The formats of vote files, their columns and their meaning: one entry of `SCHEMAS` for each format."""

from app.imports.formats.schemas.choosing import (
    ANNOTATOR_COLUMNS,
    KNOWN_COLUMNS,
    NAME,
    QUESTION_COLUMNS,
    ColumnsError,
    Form,
    NoAnnotatorError,
    UnnamedError,
    choose_form,
    find_schema,
    is_number,
    read_verdicts,
)
from app.imports.formats.schemas.known import SCHEMAS
from app.imports.formats.schemas.naming import read_columns
from app.imports.formats.schemas.schema import POOLED_ANNOTATOR, Clock, Input, Scale, Schema
