"""Kernels of Thurstone's model: normal utilities under inequalities."""
