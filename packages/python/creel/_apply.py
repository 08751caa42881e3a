"""Applies the number of workers to the libraries that are loaded."""

import operator
import os
import sys
from typing import List, NamedTuple, Optional

from ._library import library as _creel

# Libraries read these variables when they are loaded. Most of BLAS honours the first one.
_VARIABLES = [
    "OMP_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "LOKY_MAX_CPU_COUNT",
    "PYTHON_CPU_COUNT",
]
# The module that reads a variable when it is imported. It is too late for the variable then.
_READERS = {
    "NUMEXPR_MAX_THREADS": "numexpr",
    "NUMBA_NUM_THREADS": "numba",
    "POLARS_MAX_THREADS": "polars",
}
# The other variables also affect this process.
_LATER = {"PYTHON_CPU_COUNT": "for child interpreters only, because Python reads it when it starts"}


class Change(NamedTuple):
    """The change that `apply` made to one library or variable."""

    what: str
    before: Optional[int]
    after: Optional[int]
    note: str = ""

    def __str__(self) -> str:
        before = "unset" if self.before is None else self.before
        after = "unset" if self.after is None else self.after
        text = f"{self.what}: {before} -> {after}"
        return f"{text} ({self.note})" if self.note else text


def apply(workers: Optional[int] = None) -> List[Change]:
    """Size the libraries that are loaded, and the variables for those that are loaded later.

    It sets the pools that threadpoolctl finds (OpenMP, OpenBLAS, MKL, BLIS, if that package is
    installed), torch, numexpr and numba. It sets variables that are not set yet. It never raises a
    number that a library has, because the program may have chosen it. Returns what it did; nothing
    is printed. Raises TypeError if `workers` is not a whole number, and ValueError if it is below 1.

        >>> import creel
        >>> for change in creel.apply():
        ...     print(change)  # doctest: +SKIP
        OMP_NUM_THREADS: unset -> 4
    """
    if workers is None:
        workers = _creel.creel_workers()
    try:
        workers = int(operator.index(workers))
    except TypeError:
        raise TypeError(f"creel.apply expects a whole number of workers, not {workers!r}") from None
    if workers < 1:
        raise ValueError(f"a program has at least one worker, not {workers}")
    return [*_threadpoolctl(workers), *_modules(workers), *_variables(workers)]


def _threadpoolctl(workers):
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        if "numpy" in sys.modules:
            yield Change("numpy", None, None, "not sized, because threadpoolctl is not installed")
        return
    # One library may be loaded several times, with a number of its own each time.
    for pool in ThreadpoolController().lib_controllers:
        before = pool.num_threads
        if before > workers:
            pool.set_num_threads(workers)
        yield Change(_name(pool.info()), before, pool.num_threads, _note(before, workers))


def _note(before, workers):
    return "" if before > workers else "low enough"


def _name(pool):
    return f"{pool['internal_api']} ({os.path.basename(pool['filepath'])})"


def _modules(workers):
    for name in ["torch", "numexpr", "numba"]:
        module = sys.modules.get(name)
        if module is None or not hasattr(module, "set_num_threads"):
            continue
        if hasattr(module, "get_num_threads"):
            before = module.get_num_threads()
        else:
            before = module.nthreads  # older versions of numexpr
        if before > workers:
            module.set_num_threads(workers)
        yield Change(name, before, min(before, workers), _note(before, workers))


def _variables(workers):
    for name in _VARIABLES:
        value = os.environ.get(name)
        reader = _READERS.get(name)
        if value is not None:
            number = int(value) if value.isdigit() else None
            yield Change(name, number, number, "it was set already")
        elif reader in sys.modules:
            yield Change(name, None, None, f"{reader} has read it already")
        else:
            os.environ[name] = str(workers)
            yield Change(name, None, workers, _LATER.get(name, "for what is loaded later"))
