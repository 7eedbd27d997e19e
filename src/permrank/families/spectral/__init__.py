"""Spectral analysis of rankings over the symmetric group."""
