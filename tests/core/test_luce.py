"""Choices averaged over scores that are not known exactly."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from permrank.core.luce import averaged_choice


@pytest.mark.parametrize("deviation", [0.1, 1.0, 4.0, 30.0])
def test_a_choice_averaged_over_a_normal_difference_is_the_integral(deviation):
    for mean in (-12.0, -1.5, 0.0, 0.3, 2.0, 7.0, 50.0):

        def weighed(z, mean=mean):
            return expit(mean + deviation * z) * norm.pdf(z)

        places = np.clip([-mean / deviation], -8.0, 8.0)  # where the curve is steep
        exact = quad(weighed, -9.0, 9.0, points=places, limit=400, epsabs=1e-10)[0]
        assert_allclose(averaged_choice(np.array(mean), np.array(deviation**2)), exact, rtol=0, atol=1e-5)


def test_a_usual_approximation_would_not_do():
    mean, variance = np.array(3.0), np.array(4.0)
    exact = quad(lambda z: expit(3.0 + 2.0 * z) * norm.pdf(z), -9.0, 9.0, epsabs=1e-10)[0]
    assert_allclose(averaged_choice(mean, variance), exact, rtol=0, atol=1e-5)
    assert abs(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)) - exact) > 1e-3  # the control


def test_what_is_known_exactly_is_chosen_by_the_logistic_curve():
    gaps = np.linspace(-40.0, 40.0, 801)
    found = averaged_choice(gaps, np.zeros(gaps.size))
    assert_allclose(found, expit(gaps), rtol=0, atol=1e-5)
    assert_allclose(found + found[::-1], 1.0, rtol=0, atol=1e-8)
    assert (np.diff(found) >= 0.0).all()
