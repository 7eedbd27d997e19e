"""Plackett-Luce: likelihood, races, rank distributions, insertion, damping."""
