"""Thurstone's model: normal utilities with factors, of which everything that a person says is a constraint."""
