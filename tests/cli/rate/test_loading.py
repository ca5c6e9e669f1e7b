import subprocess
import sys

import pytest

from app.cli.rate.loading import loading_solver
from app.cli.rate.offline import rate_votes
from app.rating.settings import LoopSettings

PROGRAM = """
import sys
import threading
from app.cli.rate.command import loading_solver
from app.rating.settings import LoopSettings
print([name for name in ("numba", "scipy", "sqlalchemy", "fastapi") if name in sys.modules])
with loading_solver(LoopSettings()) as rate_votes:
    print("reading")
print(rate_votes.result().__name__)
for thread in threading.enumerate():
    if thread.name.startswith("loading-solver"):
        thread.join()
from app.rating.votes.tally import count_cells, fill_cells, pack_votes
from app.rating.detection.mixture import add_annotators
from app.rating.fit.kernels import expand_cells
print(*(len(kernel.signatures) for kernel in (pack_votes, count_cells, fill_cells, expand_cells, add_annotators)))
"""


def test_the_solver_and_its_kernels_are_loaded_beside_the_reading() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nreading\nrate_votes\n1 1 1 1 1\n"


def test_threads_switch_as_before_once_the_file_is_read() -> None:
    before = sys.getswitchinterval()
    with loading_solver(LoopSettings()) as solver:
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
    assert solver.result() is rate_votes
    with pytest.raises(FileNotFoundError), loading_solver(LoopSettings()):
        raise FileNotFoundError
    assert sys.getswitchinterval() == before
