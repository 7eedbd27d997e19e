"""ranx on lists of equal length from a file: values of its metrics, and seconds. Runs in .venv-peers."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from ranx import Qrels, Run, evaluate

# permrank's names of what ranx also defines.
METRICS = {
    "ndcg": "ndcg_burges@10",
    "ndcg_linear": "ndcg@10",
    "mrr": "mrr@10",
    "map": "map@10",
    "precision": "precision@10",
    "recall": "recall@10",
}


def main(source: str, target: str) -> None:
    with np.load(source) as stored:
        grades, scores = stored["grades"], stored["scores"]
    names = [f"{entry:05}" for entry in range(grades.shape[1])]
    lists = [f"{number:08}" for number in range(len(grades))]
    truth = {q: dict(zip(names, row, strict=True)) for q, row in zip(lists, grades.tolist(), strict=True)}
    shown = {q: dict(zip(names, row, strict=True)) for q, row in zip(lists, scores.tolist(), strict=True)}
    qrels, run = Qrels(truth), Run(shown)
    wanted = list(METRICS.values())
    few = lists[:10]
    evaluate(Qrels({q: truth[q] for q in few}), Run({q: shown[q] for q in few}), wanted)  # compiles
    begin = time.perf_counter()
    evaluate(qrels, run, wanted)
    seconds = time.perf_counter() - begin
    np.savez(target, **{name: [run.scores[theirs][q] for q in lists] for name, theirs in METRICS.items()})
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
