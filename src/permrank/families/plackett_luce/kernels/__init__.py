"""Kernels of plackett_luce."""
