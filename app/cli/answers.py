"""The command `stable-arena answers`: prompts and models' answers, for people to vote on."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from app.answers import service
from app.auth.keys import COMMAND_LINE
from app.cli.options import PrintedOption
from app.cli.outputs import print_made, print_result
from app.cli.session import changing, open_session, reading
from app.cli.tables import table_of
from app.imports.answers import import_answers
from app.rating.errors import counted

answers = typer.Typer(add_completion=False, no_args_is_help=True)


@answers.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSONL, JSON, CSV, TSV (also .gz, .zst) or Parquet.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace other answers that the models have here to the same prompts.")
    ] = False,
    questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The prompts of answers that have question_id in place of a prompt."),
    ] = None,
    output_format: PrintedOption = "table",
) -> None:
    """Record the answers of a file, none if one is wrong: a prompt, a model and its answer in each record.

    Optional columns are language, category and reference. Outputs of AlpacaEval and answers of Arena-Hard are read as
    they are, those of v0.1 and of MT-Bench with --questions. The same file again changes nothing.
    """
    with open_session() as session:
        done = import_answers(session.database, file, replace=replace, recorded_by=COMMAND_LINE, questions=questions)
    said = f"{counted(done.created, 'answer')} recorded, {counted(done.prompts, 'prompt')} new."
    more = [
        (done.duplicate, "were here already."),
        (done.replaced, "replaced others."),
        (done.conflict, "left out: their models have other answers here (--replace)."),
    ]
    print_made(output_format, done, " ".join([said, *(f"{number:,} {what}" for number, what in more if number)]))


@answers.command()
def coverage(output_format: PrintedOption = "table") -> None:
    """Report how many prompts there are, and how many of them each model has answered."""
    with reading() as conn:
        found = service.report_coverage(conn)
    missing = ("Missing", lambda one: found.prompts - one.answers)
    table = table_of(found.models, "Model=model", "Answers=answers", missing)
    print_result(output_format, found, [table, f"{counted(found.prompts, 'prompt')}."])


@answers.command()
def withdraw(
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    prompt: Annotated[UUID | None, typer.Option(help="Only its answer to this prompt, by id.")] = None,
    output_format: PrintedOption = "table",
) -> None:
    """Show a model's answers no longer; votes on them stay."""
    with changing() as conn:
        number = service.withdraw_answers(conn, model, prompt, withdrawn_by=COMMAND_LINE)
    print_made(output_format, {"withdrawn": number}, f"{counted(number, 'answer')} withdrawn.")
