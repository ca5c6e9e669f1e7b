"""What an answer measures: its length, and its form in Markdown as LMArena counts it."""

import re

_CODE = re.compile(r"```[^`]*```")
_HEADER = re.compile(r"^#{1,6}\s", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:\d+\.|[-*+])\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")


def measure_answer(text: str) -> dict[str, int]:
    r"""Return the words of an answer, and the headers, list items and bold passages outside its blocks of code.

    >>> measure_answer("# Why\\n- **blue** light\\n- scatters")
    {'length': 7, 'headers': 1, 'lists': 2, 'bold': 1}
    """
    prose = _CODE.sub("", text)
    counted = {
        name: len(form.findall(prose)) for name, form in (("headers", _HEADER), ("lists", _ITEM), ("bold", _BOLD))
    }
    return {"length": len(text.split()), **counted}
