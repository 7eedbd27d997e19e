"""Every kernel is compiled once: for one signature, whatever model calls it and from wherever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import permrank

TESTS = Path(__file__).parents[1]
# Kernels that have several signatures on purpose, each with the reason.
SEVERAL = {
    "kernels.columns.gather_columns": "items of lists are read-only, the users of an item are put together by a kernel",
    "posterior.kernels.user_lists.add_lists_hessian": "ratings by odds and lists, each without the code of the other",
    "posterior.kernels.user_lists.lists_statistics": "as `add_lists_hessian`",
    "posterior.kernels.user_lists.lists_value": "as `add_lists_hessian`",
    "posterior.kernels.users._newton_system": "as `add_lists_hessian`",
    "posterior.kernels.users._climb_user": "as `add_lists_hessian`",
    "posterior.kernels.users._move_user": "as `add_lists_hessian`",
    "posterior.kernels.users._draw_around": "as `add_lists_hessian`",
    "posterior.kernels.users._move_users": "as `add_lists_hessian`",
    "kernels.lbfgs._product": "memory and points of the factored point estimate are float32, all else is float64",
    "kernels.lbfgs.memory_products": "as `_product`",
    "kernels.lbfgs.memory_sum": "as `_product`",
    "kernels.lbfgs.chunk_inner": "as `_product`",
    "kernels.lbfgs.differences": "points are float32, gradients float64",
}
# In a process of its own, since other tests call kernels with arrays that the library never passes. The code of a
# kernel comes with the environments of all kernels that it calls: so those are seen too if it is not compiled anew.
PROGRAM = """
import contextlib, json, re, sys, warnings
import numpy as np
import permrank as pr
from permrank.testing.questions import LISTS, QUESTIONS
from numba.core.compiler import CompileResult
from permrank.errors import PermrankError
from permrank.families import MODELS

environments, rebuild, reduce = set(), CompileResult._rebuild, CompileResult._reduce

def noted(reduced):
    environments.update(environment.env_name for environment in reduced[-1])
    return reduced

CompileResult._rebuild = lambda context, *reduced: rebuild(context, *noted(reduced))  # from the cache
CompileResult._reduce = lambda compiled: noted(reduce(compiled))  # to the cache

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
items = np.concatenate([rng.permutation(20)[:8] for _ in range(60)])
ratings = {"user": np.repeat(np.arange(60), 8), "item": items, "rating": rng.integers(1, 6, 480)}
for data, user in ((pr.Rankings.from_lists(LISTS), "ann"), (pr.Rankings.from_ratings(ratings), 3)):
    models = [getattr(pr, name)() for name in MODELS]
    models += [pr.FactoredPlackettLuce(ties="partition", max_iter=5), pr.FactoredPlackettLuce(method="point")]
    models += [pr.PairwiseLogLinear(method="persistent", move=move, max_iter=5) for move in ("swap", "sublist")]
    for model in models:
        if "prior" in model.get_params():
            model.set_params(prior="gaussian")
        with contextlib.suppress(PermrankError):  # not every model takes every kind of data
            model.fit(data)
            model.recommend(model.fold_in(list(data.item_ids)[:3]))
            model.recommend(user)
            for ask in QUESTIONS.values() if user == "ann" else ():
                with contextlib.suppress(PermrankError):
                    ask(model)

found = {}
for name in environments:
    # _ZN08NumbaEnv <lengths and names> B <length> v <number> B <options> E <types>
    names = name.removeprefix("_ZN08NumbaEnv8permrank")
    if names != name:
        kernel, rest = re.split(r"B\\d+v\\d+B", names, maxsplit=1)
        # The options begin with their length; a set of them is written in an order that varies from process to process.
        length = re.match(r"\\d+", rest).group()
        types = rest[len(length) + int(length) :]
        found.setdefault(re.sub(r"\\d+", ".", kernel).strip("."), set()).add(types)
print(json.dumps({name: sorted(types) for name, types in found.items()}))
"""


def test_no_kernel_is_compiled_for_several_signatures():
    path = os.pathsep.join([str(Path(permrank.__file__).parents[1]), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, "PYTHONPATH": path}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {
        "kernels.streams.bits",
        "families.log_linear.kernels.energy.pair_indices",
        "kernels.cooccurrence.row_sums",
    } <= set(found)
    assert len(found) > 150
    assert {name: types for name, types in found.items() if len(types) > 1 and name not in SEVERAL} == {}
    assert all(len(found[name]) > 1 for name in SEVERAL)
