"""The parameters of `POST /imports`: in the query, or fields of a form beside its file."""

from typing import Literal

from pydantic import Field

from app.errors import BadInputError, FieldError
from app.imports.formats.options import DayOrder, ZeroRank
from app.imports.service import ImportOptions
from app.imports.upload import MAX_FILE_NAME_LENGTH
from app.naming.names import name_error
from app.schemas import FrozenModel


class ImportParameters(FrozenModel):
    """What is said about a file that is uploaded."""

    schema_name: str | None = Field(
        None, alias="schema", description="Name of the file's format; by default it is detected from the columns."
    )
    annotator_column: str | None = Field(
        None, description="Column with the annotator; by default annotator, judge, user_id and similar names."
    )
    pool_annotators: bool = Field(False, description="Treat all votes as those of one annotator, named pooled.")
    skip_invalid: bool = Field(False, description="Leave out invalid records instead of refusing the file.")
    again: bool = Field(False, description="Import the file even if it was imported before.")
    new_rows_only: bool = Field(False, description="Leave out the votes that are on record already, by what they say.")
    allow_repeats: bool = Field(
        False, description="Record votes that say the same as votes on record too, as further votes."
    )
    columns: str | None = Field(
        None,
        max_length=2000,
        description="Columns with other names, as `winner=Label,model_a=First`; `weight=` says that none has weights.",
    )
    annotator_prefix: str = Field(
        "", max_length=100, description="Put before every annotator, so that those of two studies stay apart."
    )
    dates: DayOrder | None = Field(
        None, description="Order of day and month in dates such as 1/2/2026; by default what the file shows."
    )
    verdict: list[str] = Field(
        [],
        max_length=100,
        description="What a word in the column of the winner means, as `gauche=left`: left, right, tie, model_a, "
        "model_b, both_bad, or name for a model's name. Repeat it for several words.",
    )
    where: list[str] = Field(
        [],
        max_length=100,
        description="Read only the rows with this value, `status=approved`, or without it, `lang!=en`. Repeat it.",
    )
    zero_rank: ZeroRank | None = Field(
        None, description="What a rank below 1 means: the best, or not ranked; by default it has to be clear."
    )
    dry_run: bool = Field(
        False,
        description="Check and count the records without storing them; counts that need stored votes are null.",
    )
    filename: str = Field("upload", min_length=1, max_length=MAX_FILE_NAME_LENGTH, description="Name of the file.")
    format: Literal["csv", "tsv", "txt", "json", "jsonl", "parquet", "zip"] | None = Field(
        None, description="Kind of the body; by default detected from `filename`, then from Content-Type."
    )

    def options(self) -> ImportOptions:
        """Return the options of the import. Raises BadInputError."""
        if fault := name_error(self.filename):
            raise BadInputError(f"filename {fault}", (FieldError("/filename", fault),))
        given = self.model_dump(exclude={"filename", "format", "schema_name"})
        return ImportOptions(
            schema=self.schema_name, **{**given, "verdict": tuple(self.verdict), "where": tuple(self.where)}
        )
