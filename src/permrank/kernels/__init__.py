"""Numba functions on flat arrays: no classes, no I/O, no other layer."""
