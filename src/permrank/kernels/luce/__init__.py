"""Kernels of the Plackett-Luce distribution (§3)."""
