"""Protocols, metrics, and comparisons of models."""
