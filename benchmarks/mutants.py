"""Mutation testing: each known mistake is put into a copy of the source, and the tests named beside it must fail.

A mutant is an edit that no test noticed once. The named tests first run on the copy without an edit, where they must
pass, and then on each mutant, compiled anew. A text that is not found exactly once is an error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"


class Mutant(NamedTuple):
    """An edit of a file of src/permrank, and the tests (under tests/) of which one or more must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self) -> str:
        """The text of the file with the edit."""
        text = (SOURCE / "permrank" / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise LookupError(f"mutant {self.name!r}: found {found} times in {self.file}, expected once: {self.old!r}")
        return text.replace(self.old, self.new)


LATENT = "families/latent/kernels/test_insertion.py"
GROUPS = "core/test_tie_groups.py"
LINKS = "posterior/test_links.py"
STATISTICS = "evaluation/test_statistics.py"
THURSTONE = "families/thurstone/test_model.py"
MALLOWS = "families/mallows/test_mallows.py"
ERASING = "interfaces/server/test_erasing.py"
PAIRS = "evaluation/test_significance.py"
BALLOTS = "evaluation/test_compare.py::test_a_ballot_counts_by_its_weight_in_every_mean_interval_and_p_value"

MUTANTS = (
    Mutant(
        "places in a tie: root of m + 1",
        "families/latent/kernels/insertion.py",
        "math.exp(log_passes / (end - i))",
        "math.exp(log_passes / (end - i + 1))",
        (f"{LATENT}::test_a_candidate_passes_a_tie_with_the_ratios_of_all_its_items",),
    ),
    Mutant(
        "places in a list: time n squared",
        "families/latent/kernels/insertion.py",
        "        passes *= inverse_p[i]\n",
        "        passes *= inverse_p[i]\n        for _ in range(i):\n            passes += 0.0\n",
        (f"{LATENT}::test_the_kernel_takes_time_that_is_linear_in_items_and_communities",),
    ),
    Mutant(
        "tie groups: variances without the covariance",
        "core/tie_groups.py",
        "variance[:, None] + variance[None, :] - 2.0 * covariance",
        "variance[:, None] + variance[None, :]",
        (f"{GROUPS}::test_a_difference_is_measured_by_its_own_standard_error",),
    ),
    Mutant(
        "tie groups: wrong at 25 % for 20 %",
        "core/tie_groups.py",
        "np.quantile(largest, level, ",
        "np.quantile(largest, 1.25 * level - 0.25, ",
        (f"{GROUPS}::test_what_is_settled_is_wrong_no_more_often_than_stated",),
    ),
    Mutant(
        "tie groups: wrong at 15 % for 20 %",
        "core/tie_groups.py",
        "np.quantile(largest, level, ",
        "np.quantile(largest, 0.75 * level + 0.25, ",
        (f"{GROUPS}::test_what_is_settled_is_wrong_no_more_often_than_stated",),
    ),
    Mutant(
        "ask and sure: utilities without noise",
        "families/thurstone/answers.py",
        "means + deviations * rng",
        "means + 0.0 * deviations * rng",
        (
            f"{THURSTONE}::test_questions_are_about_utilities_with_the_noise_of_items_that_were_not_spoken_of",
            f"{THURSTONE}::test_utilities_that_are_simulated_have_their_means_and_deviations",
        ),
    ),
    Mutant(
        "ask: utilities without noise",
        "families/thurstone/answers.py",
        "x = simulated(*utilities(estimate, evidence, chains, items), int(stream_key(estimate.seed, 5)))",
        "x = utilities(estimate, evidence, chains, items)[0]",
        (f"{THURSTONE}::test_questions_are_about_utilities_with_the_noise_of_items_that_were_not_spoken_of",),
    ),
    Mutant(
        "sure: utilities without noise",
        "families/thurstone/answers.py",
        "x = simulated(*utilities(estimate, evidence, chains, items), int(stream_key(estimate.seed, 6)))",
        "x = utilities(estimate, evidence, chains, items)[0]",
        (f"{THURSTONE}::test_questions_are_about_utilities_with_the_noise_of_items_that_were_not_spoken_of",),
    ),
    Mutant(
        "Mallows: series of the distance too far",
        "families/mallows/kernels/mallows.py",
        "    if theta < 1e-5:  # E v",
        "    if theta < 0.05:  # E v",
        (f"{MALLOWS}::test_fifty_items_have_the_mean_distance_and_precedence_of_sums_at_any_dispersion",),
    ),
    Mutant(
        "Mallows: series of the distance wrong",
        "families/mallows/kernels/mallows.py",
        "theta * (sizes**2 - 1) / 12",
        "theta * (sizes**2 + 1) / 12",
        (f"{MALLOWS}::test_fifty_items_have_the_mean_distance_and_precedence_of_sums_at_any_dispersion",),
    ),
    Mutant(
        "Mallows: series of the precedence too far",
        "families/mallows/kernels/mallows.py",
        "    if theta < 1e-5:\n        inside",
        "    if theta < 0.05:\n        inside",
        (f"{MALLOWS}::test_fifty_items_have_the_mean_distance_and_precedence_of_sums_at_any_dispersion",),
    ),
    Mutant(
        "Mallows: series of the precedence wrong",
        "families/mallows/kernels/mallows.py",
        "theta * (2 * gaps + 1) / 12",
        "theta * (2 * gaps - 1) / 12",
        (f"{MALLOWS}::test_fifty_items_have_the_mean_distance_and_precedence_of_sums_at_any_dispersion",),
    ),
    Mutant(
        "links: no prior of the strength",
        "posterior/links.py",
        "prior = -np.log1p(_GRID)",
        "prior = 0.0 * _GRID",
        (f"{LINKS}::test_the_strength_of_links_has_its_prior_where_nothing_is_seen",),
    ),
    Mutant(
        "imputed features: no degrees of freedom",
        "posterior/regression.py",
        "errors / (n - shrunk.sum(axis=0)) ** 2",
        "errors / n**2",
        ("posterior/test_regression.py::test_a_penalty_is_that_of_the_least_error_by_generalised_cross_validation",),
    ),
    Mutant(
        "scores by features: no degrees of freedom",
        "posterior/by_features.py",
        "error / (n - 1.0 - shrunk.sum()) ** 2",
        "error / n**2",
        ("posterior/test_by_features.py::test_the_penalty_is_that_of_the_least_error_by_generalised_cross_validation",),
    ),
    Mutant(
        "weights of scores: no jackknife",
        "posterior/weights.py",
        "whole = 2.0 * whole - (first + second) / 2.0",
        "whole = 1.0 * whole",
        ("posterior/test_weights.py::test_weights_of_few_draws_are_those_of_many",),
    ),
    Mutant(
        "cold items and users: one seed for all",
        "evaluation/cold.py",
        "generator(stream_key(seed, stream)).permutation(among)",
        "generator(stream_key(0, stream)).permutation(among)",
        ("evaluation/test_cold.py::test_who_is_cold_depends_on_the_seed",),
    ),
    Mutant(
        "goodness of fit: no least expected count",
        "evaluation/goodness_of_fit.py",
        "_LEAST_EXPECTED = 1.0",
        "_LEAST_EXPECTED = 1e-9",
        (f"{STATISTICS}::test_a_rare_outcome_counts_as_if_one_were_expected",),
    ),
    Mutant(
        "likeliest place: the middle is below",
        "families/log_linear/kernels/insertion.py",
        "or best <= middle else",
        "or best < middle else",
        ("families/log_linear/test_log_linear.py::test_surer_is_better_down_to_the_middle_and_worse_below_it",),
    ),
    Mutant(
        "likeliest place: the middle half a place lower",
        "families/log_linear/kernels/insertion.py",
        "middle = 0.5 * (n_positions - 1)",
        "middle = 0.5 * n_positions",
        ("families/log_linear/test_log_linear.py::test_surer_is_better_down_to_the_middle_and_worse_below_it",),
    ),
    Mutant(
        "thresholds of utilities: sign of a second derivative",
        "families/thurstone/kernels/items.py",
        "down * (down - low / deviation)",
        "down * (down + low / deviation)",
        ("families/thurstone/test_sampler.py::test_thresholds_have_the_derivatives_of_their_likelihood",),
    ),
    Mutant(
        "thresholds of utilities: sign of a mixed derivative",
        "families/thurstone/kernels/items.py",
        "out[b, 2 * n + g] -= up * down",
        "out[b, 2 * n + g] += up * down",
        ("families/thurstone/test_sampler.py::test_thresholds_have_the_derivatives_of_their_likelihood",),
    ),
    Mutant(
        "thresholds of odds: sign of a mixed derivative",
        "posterior/odds.py",
        "system[i + 1, i] -= curvature",
        "system[i + 1, i] += curvature",
        ("families/factored/test_odds.py::test_noise_of_thresholds_has_the_covariance_of_their_posterior",),
    ),
    Mutant(
        "BIC: two for the logarithm",
        "inference/summary.py",
        "math.log(max(self.n, 1.0)) * self.df - 2.0",
        "2.0 * self.df - 2.0",
        ("inference/test_summary.py::test_criteria_are_those_of_akaike_and_schwarz",),
    ),
    Mutant(
        "point estimates: the first start for the best",
        "learning/learner.py",
        "best = int(np.argmax(np.nan_to_num(objectives, nan=-np.inf)))",
        "best = 0",
        (
            "learning/test_learner.py::test_the_best_of_several_learners_is_the_estimate_and_all_go_on_to_their_ends",
            "families/factored/test_point.py::test_the_best_of_several_starts_is_kept_and_all_are_told",
        ),
    ),
    Mutant(
        "point estimates: every start the same",
        "families/factored/point.py",
        "default_rng([int(key), number])",
        "default_rng([int(key), 0])",
        ("families/factored/test_point.py::test_the_best_of_several_starts_is_kept_and_all_are_told",),
    ),
    Mutant(
        "features: nobody is told what is not learnt from",
        "core/fitting.py",
        "if kind not in learnt]",
        "if kind in learnt]",
        ("core/test_unlearnt.py::test_models_of_worths_and_baselines_learn_from_nothing_else",),
    ),
    Mutant(
        "weights up to 1e15",
        "rankings/build.py",
        "MOST_WEIGHT = 1e9",
        "MOST_WEIGHT = 1e15",
        ("rankings/test_rankings.py::test_a_bad_row_is_named_with_its_value",),
    ),
    Mutant(
        "ratings up to 1e300",
        "rankings/build.py",
        "MOST_RATING = 1e15",
        "MOST_RATING = 1e300",
        ("rankings/test_rankings.py::test_a_bad_row_is_named_with_its_value",),
    ),
    Mutant(
        "compare: the luck of fits left out",
        "evaluation/significance.py",
        "if not sample.random:",
        "if True:",
        (f"{PAIRS}::test_two_equal_models_are_told_apart_in_five_of_a_hundred",),
    ),
    Mutant(
        "compare: p-values of one pair alone",
        "evaluation/significance.py",
        "least = np.minimum(least, _p_value(",
        "least = np.minimum(1.0, _p_value(",
        (f"{PAIRS}::test_of_many_equal_models_none_is_told_apart_in_nineteen_of_twenty",),
    ),
    Mutant(
        "compare: people without their weights",
        "evaluation/significance.py",
        "np.where(counts > 0, weights, 0.0)",
        "np.where(counts > 0, 1.0, 0.0)",
        (f"{PAIRS}::test_weights_are_those_of_the_means_and_of_their_variance",),
    ),
    Mutant(
        "compare: the same seed for every fit",
        "evaluation/compare.py",
        "stream_key(split.seed, digest, fit)",
        "stream_key(split.seed, digest)",
        ("evaluation/test_compare.py::test_every_fit_has_its_own_seed_and_is_the_same_again",),
    ),
    Mutant(
        "erasing: the journal is full after the rebuild",
        "interfaces/server/erasing.py",
        "_is_rebuilt(db) and _is_empty(db)",
        "_is_rebuilt(db)",
        (f"{ERASING}::test_of_thousands_who_are_erased_nothing_is_left_between_rows_either",),
    ),
    Mutant(
        "erasing: an attempt that fails is the last",
        "interfaces/server/erasing.py",
        "                done, pause = False, _LOOK\n",
        "                return\n",
        (f"{ERASING}::test_an_attempt_that_fails_is_not_the_last",),
    ),
    Mutant(
        "erasing: the notes of a deleted poll keep its id",
        "interfaces/server/polls.py",
        "UPDATE erasures SET poll = '' WHERE poll = ?",
        "UPDATE erasures SET poll = poll WHERE poll = ?",
        (f"{ERASING}::test_while_somebody_reads_an_erasure_is_pending_and_then_it_is_done",),
    ),
    Mutant(
        "compare: draws of people without their weights",
        "evaluation/significance.py",
        "share = (weights / weights.sum())[:, None]",
        "share = np.full((weights.size, 1), 1.0 / weights.size)",
        (f"{PAIRS}::test_of_two_models_p_is_students_for_the_effective_number_of_people",),
    ),
    Mutant(
        "compare: p-values without people's weights",
        "evaluation/comparison.py",
        'return samples, wide["weight"].to_numpy()',
        "return samples, np.ones(wide.height)",
        (BALLOTS,),
    ),
    Mutant(
        "compare: intervals of differences by people alone",
        "evaluation/comparison.py",
        '"low": -pairs[name].high, "high": -pairs[name].low}',
        "}",
        (BALLOTS,),
    ),
    Mutant(
        "evaluate: ballots without their weights",
        "evaluation/evaluate.py",
        "test.weights if test.anonymous else np.ones(test.n_rankings)",
        "np.ones(test.n_rankings)",
        (BALLOTS,),
    ),
    Mutant(
        "compare: a verdict over three people",
        "evaluation/significance.py",
        "if part.people_df + 1.0 < LEAST_PEOPLE - 1e-9:",
        "if False:",
        (f"{PAIRS}::test_few_people_or_one_fit_decide_nothing",),
    ),
    Mutant(
        "compare: a question that half of the models cannot answer",
        "evaluation/defaults.py",
        "2 * unable < len(models)",
        "2 * unable <= len(models)",
        ("evaluation/test_protocols.py::test_the_usual_protocol_asks_nothing_that_half_of_the_models_cannot_answer",),
    ),
    Mutant(
        "intervals: normal quantiles",
        "evaluation/significance.py",
        "stdtrit(df, tail)",
        "stdtrit(1e9, tail)",
        ("evaluation/test_significance.py::test_five_normal_people_need_students_quantiles",),
    ),
    Mutant(
        "validation: entries that are learnt from",
        "evaluation/validation.py",
        "if twice.size:",
        "if False:",
        ("evaluation/test_validation.py::test_what_is_learnt_from_does_not_judge",),
    ),
)


def passed(source: Path, tests: Iterable[str]) -> bool:
    """Whether tests pass with the source in a folder, compiled into an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *(f"tests/{t}" for t in tests)]
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):  # neither passed nor failed: not found, or not run
        sys.exit(run.stdout + run.stderr)
    return run.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose names hold this")
    chosen = [mutant for mutant in MUTANTS if parser.parse_args().only in mutant.name]
    texts = [mutant.applied() for mutant in chosen]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if not passed(copy, dict.fromkeys(test for mutant in chosen for test in mutant.tests)):
            sys.exit("the tests fail without any mutant")
        for mutant, text in zip(chosen, texts, strict=True):
            path = copy / "permrank" / mutant.file
            original = path.read_bytes()
            path.write_text(text, encoding="utf-8")
            if passed(copy, mutant.tests):
                survived.append(mutant.name)
            path.write_bytes(original)
            print(f"{'survived' if mutant.name in survived else 'killed':10}{mutant.name}", flush=True)
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
