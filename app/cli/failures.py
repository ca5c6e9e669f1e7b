"""How a command fails: one line on standard error, then the places in the input, and an exit code.

Light, because every command and the help page load it.
"""

import sys
from collections.abc import Callable, Sequence

from typer import TyperException

from app.errors import BadInputError, StableArenaError
from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, RatingError, VotesError

BAD_INPUT = 2
FAILURE = 1
SHOWN_ERRORS = 10

_BAD_INPUT_ERRORS = (BadInputError, VotesError, NoFiniteMaximumError, NoCommonRankingError)


def one_line(text: str) -> str:
    r"""Return the text on one line, with every character that cannot be printed escaped (`\n`, `\x1b`).

    Names in it come from strangers.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text.strip()
    )


def run_guarded(command: Callable[[], object]) -> int:
    """Run a command and return its exit code; say on standard error why it failed.

    The code is 2 for input that cannot be used and 1 for every other failure. A bug shows its traceback only
    under `python -X dev`.
    """
    try:
        status = command()
    except TyperException as error:
        if message := error.format_message():  # a family of commands without one has shown its help instead
            _print_error(message)
        return error.exit_code
    except StableArenaError as error:
        places = [f"{one.pointer}: {one.detail}" for one in error.errors[:SHOWN_ERRORS]]
        _print_error(error.detail, places, rest=error.n_errors - len(places))
        return BAD_INPUT if isinstance(error, _BAD_INPUT_ERRORS) else FAILURE
    except RatingError as error:
        _print_error(str(error))
        return BAD_INPUT if isinstance(error, _BAD_INPUT_ERRORS) else FAILURE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _print_error(f"{where}{error.strerror or error}")
        return FAILURE
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _print_error(f"unexpected {type(error).__name__}: {error} (a bug; `python -X dev` shows where)")
        return FAILURE
    return status if isinstance(status, int) else 0


def _print_error(message: str, places: Sequence[str] = (), *, rest: int = 0) -> None:
    lines = [f"error: {one_line(message)}", *(f"  {one_line(place)}" for place in places)]
    if rest > 0:
        lines.append(f"  … and {rest:,} more")
    print("\n".join(lines), file=sys.stderr)  # noqa: T201  the terminal is this layer's job
