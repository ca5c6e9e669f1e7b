from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
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
    report = progress or (lambda _: None)
    if processes == 1 or len(seeds) <= 1:
        results = []
        for done, seed in enumerate(seeds, start=1):
            results.append(work(seed))
            report(done / len(seeds))
        return results
    # spawn: numba's and the linear algebra library's threads do not survive a fork
    others = active_children()
    with ProcessPoolExecutor(min(processes, len(seeds)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, seed) for seed in seeds]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                report(done / len(seeds))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(active_children()).difference(others):
                child.terminate()  # or the end would wait for the seeds under way
            raise
        return [future.result() for future in futures]
