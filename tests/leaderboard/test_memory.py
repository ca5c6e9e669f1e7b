from app.leaderboard.board_files import BoardFiles


def test_what_was_asked_for_longest_ago_is_forgotten_first() -> None:
    files, made = BoardFiles(max_bytes=100), []

    def ask(name: str, size: int = 40) -> bytes:
        def make() -> bytes:
            made.append(name)
            return name.encode() * size

        return files.remember((name,), make)

    assert ask("a") == ask("a") == b"a" * 40
    ask("b")
    ask("a")
    ask("c")
    assert made == ["a", "b", "c"]
    ask("a")
    ask("b")
    assert made == ["a", "b", "c", "b"]
    ask("x", 1000)
    ask("b")
    assert made == ["a", "b", "c", "b", "x"], "what is larger than all room drives nothing out"
