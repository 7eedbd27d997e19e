"""Priors that several families share."""
