"""How a failed command says so: one line on standard error, the places in the input, an exit code."""

import sys
from collections.abc import Callable, Sequence

from typer import TyperException

from app.errors import BadInputError, StableArenaError
from app.rating.errors import NoCommonRankingError, NoFiniteMaximumError, RatingError, VotesError

BAD_INPUT = 2
FAILURE = 1
SHOWN_ERRORS = 10

_BAD_INPUT_ERRORS = (BadInputError, VotesError, NoFiniteMaximumError, NoCommonRankingError)


def run_guarded(command: Callable[[], object]) -> int:
    """Run a command and return its exit code, having told standard error why it failed, where it did.

    2 is for input that cannot be used, 1 for everything else. A bug's traceback is only for those who start
    Python with `-X dev`.
    """
    try:
        status = command()
    except TyperException as error:
        if message := error.format_message():  # a family of commands without one has shown its help instead
            _tell(message)
        return error.exit_code
    except StableArenaError as error:
        places = [f"{each.pointer}: {each.detail}" for each in error.errors[:SHOWN_ERRORS]]
        _tell(error.detail, places, rest=error.n_errors - len(places))
        return BAD_INPUT if isinstance(error, _BAD_INPUT_ERRORS) else FAILURE
    except RatingError as error:
        _tell(str(error))
        return BAD_INPUT if isinstance(error, _BAD_INPUT_ERRORS) else FAILURE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _tell(f"{where}{error.strerror or error}")
        return FAILURE
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        _tell(f"unexpected {type(error).__name__}: {error} (a bug; `python -X dev` shows where)")
        return FAILURE
    return status if isinstance(status, int) else 0


def _tell(message: str, places: Sequence[str] = (), *, rest: int = 0) -> None:
    lines = [f"error: {one_line(message)}", *(f"  {one_line(place)}" for place in places)]
    if rest > 0:
        lines.append(f"  … and {rest:,} more")
    print("\n".join(lines), file=sys.stderr)  # noqa: T201  the terminal is this layer's job


def one_line(text: str) -> str:
    """Return the text with everything that is not printable escaped: names in it come from strangers."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text.strip()
    )
