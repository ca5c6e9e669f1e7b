"""Texts for a terminal."""


def one_line(text: str) -> str:
    r"""Return the text on one line, with every character that cannot be printed escaped (`\n`, `\x1b`).

    Names in it come from strangers.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text.strip()
    )
