"""The command `stable-arena compile`."""

import time

import typer

from app.rating.compile import compile_kernels
from app.votes.batch_items import compile_batch_scan


def compile_ahead() -> None:
    """Compile the numeric kernels once, so that the first refit, `rate` or batch of votes need not.

    The machine code is kept beside the installed package, or in the user's cache. It takes about half a minute.
    """
    started = time.monotonic()
    compile_kernels(lambda step: typer.echo(f"Compiling: {step}"))
    typer.echo("Compiling: batches")
    compile_batch_scan()
    typer.echo(f"Compiled in {time.monotonic() - started:.0f} s.")
