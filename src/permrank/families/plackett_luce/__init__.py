"""Plackett-Luce models of one order for everybody."""
