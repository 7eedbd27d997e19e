"""How often `tie_groups` is wrong, where it states that everything is right with probability 0.9.

Ballots of six items with planted worths, all equal or equal in pairs. Wrong is a data set of which anything that is
said is: an item whose stated ranks do not hold all ranks that it shares with its equals. Takes a minute.
"""

import argparse
import warnings

import numpy as np

import permrank as pr

LEVEL = 0.9


def ballots(truth, n_voters, rng):
    """Plackett-Luce ballots of all items."""
    orders = np.argsort(-(truth + rng.gumbel(size=(n_voters, truth.size))), axis=1)
    return pr.Rankings.from_lists({f"voter {i}": order.tolist() for i, order in enumerate(orders)})


def is_wrong(frame, truth):
    """Whether the stated ranks of any item leave out one that it shares with its equals."""
    own = truth[frame["item"].to_numpy()]
    first = 1 + (truth[None, :] > own[:, None]).sum(axis=1)
    last = (truth[None, :] >= own[:, None]).sum(axis=1)
    return bool(((frame["rank_low"].to_numpy() > first) | (frame["rank_high"].to_numpy() < last)).any())


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=300, help="Data sets of each row.")
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(20)
    print("| worths | ballots | prior | wrong | groups |\n|---|---|---|---|---|")
    for name, truth in {"all equal": np.zeros(6), "equal in pairs": np.repeat([0.0, 1.0, 2.0], 2)}.items():
        for n_voters in (30, 150):
            for prior in (None, "gaussian"):
                found = []
                for _ in range(repeats):
                    model = pr.PlackettLuce(prior=prior).fit(ballots(truth, n_voters, rng), verbose=False)
                    frame = model.tie_groups(level=LEVEL)
                    found.append((is_wrong(frame, truth), frame["group"].max()))
                wrong, groups = np.mean(found, axis=0)
                print(f"| {name} | {n_voters} | {prior} | {wrong:.3f} | {groups:.2f} |", flush=True)


if __name__ == "__main__":
    main()
