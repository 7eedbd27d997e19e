"""Baselines: one order for everybody, by simple rules."""
