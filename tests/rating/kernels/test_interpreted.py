"""The interpreter and the compiler get the same numbers from every branch of the kernels.

`make coverage` runs this without compilation, so that the branches count.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numba
import numpy as np
import pytest

from tests.rating.kernels.small_arenas import CASES, flatten

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, np.ndarray]:
    """The numbers from a process that compiles the kernels if this one does not, and otherwise interprets them."""
    path: Path = tmp_path_factory.mktemp("kernels") / "numbers.npz"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": str(int(not numba.config.DISABLE_JIT))}
    subprocess.run([sys.executable, "-m", "tests.rating.kernels.small_arenas", path], env=environment, check=True)
    with np.load(path) as numbers:
        return dict(numbers)


@pytest.mark.parametrize("case", CASES)
def test_interpreted_and_compiled_kernels_agree(case: str, other: Mapping[str, np.ndarray]) -> None:
    np.testing.assert_allclose(flatten(CASES[case]()), other[case], rtol=1e-7, atol=1e-9)
