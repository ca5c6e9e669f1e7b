"""Texts for a terminal."""


def counted(number: float, noun: str) -> str:
    """Return the number with its noun: `1 vote`, `2,000 votes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: str) -> str:
    r"""Return the text on one line, with every character that cannot be printed escaped (`\n`, `\x1b`).

    Names in it come from strangers.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text.strip()
    )
