"""The prompts that a process remembers, and how much of them."""

from itertools import combinations

from app.answers.pool import AnswerPool, PooledPrompt


def test_what_is_offered_takes_a_bounded_part_of_the_memory() -> None:
    """An arena's backend may list other candidates with every request."""
    models = tuple(range(30))
    pool = AnswerPool([PooledPrompt(p, {"category": f"c{p % 2}"}, {m: m for m in models}) for p in range(50)])
    for candidates in combinations(models, 2):
        for category in (None, "c0", "c1", "none"):
            offered = pool.offer(candidates, category)
            assert len(offered) == {None: 50, "none": 0}.get(category, 25)
            assert all(one.model_ids == candidates for one in offered)
        assert pool.kept <= 64 * 50
    assert pool.offer((1, 2, 99), None)[3] == pool.offer((1, 2), None)[3], "made when it is looked at"
    assert pool.offer(models, None) is pool.offer(models, None), "what all ask for is made once"
    assert len(AnswerPool([]).offer(models, None)) == 0
    assert len(pool.offer((1, 99), None)) == 0, "it takes two"
