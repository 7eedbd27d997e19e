"""Algorithms that know no model: they are handed arrays and callables."""
