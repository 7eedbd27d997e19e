"""The same computation with one thread and with all."""

import numba


def by_threads(compute):
    """What a computation returns with one thread of compiled code, and with as many as there are."""
    before, results = numba.get_num_threads(), []
    try:
        for n_threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(n_threads)
            results.append(compute())
    finally:
        numba.set_num_threads(before)
    return results
