"""What the tests of the tutorials see in a page, and that they find what is wrong in one."""

from pathlib import Path

import pytest

from tests.tutorials.pages import PROGRAMS, Command, Deed, Text, steps_of
from tests.tutorials.reader import Reader

PAGE = """
```python title="a.py"
print(1)
```

Some words, and an example:

```json
{"not": "a file"}
```

```
$ python a.py
1
$ printf 'x\\n\\ny 17\\nz\\n' \\
    | cat
x
…
z
```

<!-- reader: vote -->
"""


def test_the_steps_of_a_page() -> None:
    assert list(steps_of(PAGE)) == [
        Text("a.py", "print(1)\n"),
        Command("python a.py", ("1",)),
        Command("printf 'x\\n\\ny 17\\nz\\n' \\\n    | cat", ("x", "…", "z")),
        Deed("vote"),
    ]


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ((), "", True),
        ((), "a\n", False),
        (("a",), "a \n", True),
        (("a",), "a\nb\n", False),
        (("a…c", "…"), "abc\nx\ny\n", True),
        (("a…c",), "ac\n", False),
        (("…", "z"), "z\n", True),
        (("…", "z"), "z\ny\n", False),
        (("a.c",), "abc\n", False),
    ],
)
def test_what_is_shown_is_all_that_is_said(shown: tuple[str, ...], said: str, same: bool) -> None:
    assert Command("x", shown).prints(said) == same


def test_a_reader_does_the_steps_and_keeps_variables(tmp_path: Path) -> None:
    done = []
    with Reader(tmp_path, 1) as reader:
        reader.follow(PAGE, {"vote": lambda of: done.append(of.commands)})
        reader.follow("```\n$ A=$(python a.py)\n$ echo $A $CLONE/b\n1 …/b\n$ node no\n```")
        assert (done, reader.commands) == ([2], 4)


@pytest.mark.parametrize("language", PROGRAMS)
def test_no_program_is_left_out(language: str) -> None:
    with pytest.raises(AssertionError):
        list(steps_of(f"```{language}\na program\n```\n"))


@pytest.mark.parametrize("block", ["$ echo 1\n2\n", "$ echo 1\n", "$ false\n", "$ echo error: x\nerror: x\n"])
def test_a_reader_stops_at_what_is_wrong(tmp_path: Path, block: str) -> None:
    with Reader(tmp_path, 1) as reader, pytest.raises(AssertionError):
        reader.follow(f"```\n{block}```")
