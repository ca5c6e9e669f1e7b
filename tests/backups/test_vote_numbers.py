from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from app.backups.queries import FIRST, dividing_lines

vote_sets = st.builds(
    lambda first, length, running: (first, first + length, {first + i for i in running if i < length}),
    st.integers(10, 40),
    st.integers(0, 10),
    st.sets(st.integers(0, 9)),
)


def sees(vote_set: tuple[int, int, set[int]], transaction: int) -> bool:
    first, end, running = vote_set
    return transaction < first or (transaction < end and transaction not in running)


@given(st.lists(vote_sets, min_size=1, max_size=5))
def test_every_vote_set_sees_the_same_transactions_by_their_new_numbers(
    drawn: list[tuple[int, int, set[int]]],
) -> None:
    lines = dividing_lines(f"{first}:{end}:{','.join(map(str, sorted(running)))}" for first, end, running in drawn)

    def number(transaction: int) -> int:
        return FIRST + bisect_right(lines, transaction)

    for first, end, running in drawn:
        renamed = (number(first), number(end), {number(one) for one in running})
        for transaction in range(60):
            assert sees(renamed, number(transaction)) == sees((first, end, running), transaction)
