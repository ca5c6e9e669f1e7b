from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from typing import TypeVar

Result = TypeVar("Result")
Progress = Callable[[float], None]


def map_seeds(
    work: Callable[[int], Result], seeds: Sequence[int], *, processes: int = 1, progress: Progress | None = None
) -> list[Result]:
    """Run the work once for each seed and return the results in the order of the seeds.

    Parameters
    ----------
    work : depends on the seed alone, so that the number of processes does not change a result; for several processes a
        function of a module, or a `functools.partial` of one
    processes : number of processes; 1 is this process
    progress : called with the share that is done, 0 to 1, after each seed
    """
    results = list[Result]()

    def collect(found: Iterable[Result]) -> list[Result]:
        for result in found:
            results.append(result)
            if progress is not None:
                progress(len(results) / len(seeds))
        return results

    if processes == 1 or len(seeds) <= 1:
        return collect(map(work, seeds))
    # spawn: numba's and the linear algebra library's threads do not survive a fork
    others = active_children()
    with ProcessPoolExecutor(min(processes, len(seeds)), mp_context=get_context("spawn")) as pool:
        try:
            return collect(pool.map(work, seeds))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()).difference(others):
                child.terminate()  # or the end would wait for the seeds under way
            raise
