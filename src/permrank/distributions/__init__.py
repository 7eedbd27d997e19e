"""Distributions over the rankings of given items, apart from how they were learnt: indices only, no ids, no models."""
