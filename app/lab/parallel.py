from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

Result = TypeVar("Result")
Progress = Callable[[float], None]


def map_seeds(
    work: Callable[[int], Result], seeds: Sequence[int], *, processes: int = 1, progress: Progress | None = None
) -> list[Result]:
    """Do the work once for each seed and return the results in the order of the seeds.

    Parameters
    ----------
    work : of the seed alone, so that the number of processes cannot change a result; with more than one process a
        module's function, or a `functools.partial` of one
    processes : how many work at a time; 1 is this one
    progress : told the share that is done, 0 to 1, after each seed
    """
    tell = progress or (lambda _: None)
    if processes == 1 or len(seeds) <= 1:
        results = []
        for done, seed in enumerate(seeds, start=1):
            results.append(work(seed))
            tell(done / len(seeds))
        return results
    # spawn: numba's and the linear algebra library's threads do not survive a fork
    with ProcessPoolExecutor(min(processes, len(seeds)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, seed) for seed in seeds]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                tell(done / len(seeds))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]
