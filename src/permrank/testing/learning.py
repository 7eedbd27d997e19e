"""The contract of learning: parameters, seeds, threads, callbacks, checkpoints, validation, odd data."""

from __future__ import annotations

import warnings
from pathlib import Path

import numba
import numpy as np
import polars as pl
import pytest

from permrank.core.ranker import Ranker
from permrank.errors import ConvergenceWarning, InputError, NotSupportedError, PermrankError, UnknownIdError
from permrank.evaluation.validation import Validation
from permrank.learning.checkpoints import Checkpoint
from permrank.rankings.rankings import Rankings
from permrank.testing.base import Contract
from permrank.types import Progress


class LearningContract(Contract):
    """What `fit` promises."""

    def test_fit_returns_the_model_and_leaves_its_parameters_alone(self, rankings: Rankings) -> None:
        model = self.make()
        before = model.get_params()
        assert model.fit(rankings) is model
        assert model.get_params() == before

    def test_the_same_seed_gives_the_same_bits_for_one_thread_and_two(self, rankings: Rankings) -> None:
        before = numba.get_num_threads()
        scores = []
        try:
            for n_threads in {1, numba.config.NUMBA_NUM_THREADS}:  # type: ignore[attr-defined]
                numba.set_num_threads(n_threads)
                scores += [self.make().fit(rankings).score("ann") for _ in range(2)]
        finally:
            numba.set_num_threads(before)
        for other in scores[1:]:
            np.testing.assert_array_equal(scores[0], other)

    def test_fitting_twice_is_fitting_once(self, rankings: Rankings, fitted: Ranker) -> None:
        before = fitted.score("ann")
        np.testing.assert_array_equal(fitted.fit(rankings).score("ann"), before)

    def test_parameters_can_be_read_set_and_cloned(self, rankings: Rankings) -> None:
        model = self.make()
        twin = model.clone()
        assert twin is not model
        assert twin.get_params() == model.get_params()
        assert twin.set_params(**self.other) is twin
        assert twin.get_params() == {**model.get_params(), **self.other}
        with pytest.raises(UnknownIdError, match="unknown parameter of"):
            twin.set_params(nonsense=1)
        assert type(model).__name__ in repr(model)

    def test_every_seed_that_is_none_is_refused(self, rankings: Rankings) -> None:
        if "seed" not in self.make().get_params():
            return
        for seed in (None, -1, 1.5, "x", True, 2**200):
            with pytest.raises(InputError, match=r"seed=.*, expected a whole number from 0 to 2\*\*128 - 1"):
                self.make(seed=seed).fit(rankings)

    def test_the_objective_is_recorded_and_the_callback_can_stop(self, rankings: Rankings) -> None:
        seen: list[Progress] = []
        model = self.make().fit(rankings, callback=seen.append)
        assert [p.objective for p in seen] == model.history_
        assert model.n_iter_ == len(model.history_) > 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stopped = self.make().fit(rankings, callback=lambda progress: True)
        assert stopped.n_iter_ == 1
        assert np.isfinite(stopped.score("ann")).all()

    def test_a_run_that_was_broken_off_goes_on_to_the_same_bits(self, rankings: Rankings, tmp_path: Path) -> None:
        checkpoint = Checkpoint(tmp_path / "state", every=1)
        if not self.make().resumable:
            with pytest.raises(NotSupportedError, match="does not support checkpoints"):
                self.make().fit(rankings, checkpoint=checkpoint)
            return
        whole = self.make().fit(rankings)
        for last in sorted({min(2, whole.n_iter_), whole.n_iter_ // 2, whole.n_iter_} - {0}):

            def die(progress: Progress, last: int = last) -> None:
                if progress.iteration == last:
                    raise InterruptedError

            with pytest.raises(InterruptedError):
                self.make().fit(rankings, checkpoint=checkpoint, callback=die)
            begun: list[Progress] = []
            resumed = self.make().fit(rankings, checkpoint=checkpoint, callback=begun.append)
            # EM keeps its state once for every extrapolation, which takes four sweeps.
            assert begun[0].iteration >= last - 4
            assert resumed.history_ == whole.history_
            assert resumed.converged_ == whole.converged_
            kept = resumed.estimate_.tensors()
            for name, value in whole.estimate_.tensors().items():
                np.testing.assert_array_equal(kept[name], value)
            checkpoint.remove()
        assert list(tmp_path.iterdir()) == []

    def test_a_validation_sees_every_sweep_and_touches_nothing(self, rankings: Rankings) -> None:
        held = Rankings.from_lists({"bob": ["ika", "tako"], "fay": ["uni", "ika"], "gus": ["uni", "ebi"]})
        validation = Validation(held, "pairs_right", every=1)
        if not self.make().resumable:
            with pytest.raises(NotSupportedError, match="does not support checkpoints or validation"):
                self.make().fit(rankings, validation=validation)
            return
        plain, watched = self.make().fit(rankings), self.make().fit(rankings, validation=validation)
        seen = watched.validation_[:, 0].tolist()
        assert 1 <= seen[0] <= self.burn_in(self.make()) + 1
        assert seen == list(range(int(seen[0]), plain.n_iter_ + 1))
        assert watched.history_ == plain.history_
        kept = watched.estimate_.tensors()
        for name, value in plain.estimate_.tensors().items():
            np.testing.assert_array_equal(kept[name], value)

    def test_a_progress_bar_is_shown_only_when_asked_off_a_terminal(
        self, rankings: Rankings, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.make().fit(rankings)
        assert capsys.readouterr() == ("", "")
        model = self.make().fit(rankings, verbose=True)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert type(model).__name__ in shown.err

    def test_one_item_lists_only_are_answered_or_refused_clearly(self) -> None:
        rankings = Rankings.from_lists({"u": ["a"], "v": ["b"]})
        try:
            # Where nothing is to be learnt, a learner that draws has nothing but noise to end by.
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                model = self.make().fit(rankings)
        except PermrankError as error:
            assert len(str(error)) > 20
        else:
            assert np.isfinite(model.score("u")).all()

    def test_integer_ids_are_ids_and_not_indices(self) -> None:
        rankings = Rankings.from_lists({7: [100, 5, 30], 3: [5, 100, 30], 9: [30, 5, 100], 4: [100, 30]})
        frame = self.make().fit(rankings).recommend(4)
        assert frame["item"].to_list() == [5]
        assert frame["item"].dtype == pl.Int64

    def test_something_else_than_rankings_is_refused(self) -> None:
        with pytest.raises(InputError, match="expected Rankings, got list"):
            self.make().fit([["a", "b"]])  # type: ignore[arg-type]
        with pytest.raises(InputError, match="nothing to learn from"):
            self.make().fit(Rankings.from_lists({"u": []}))
