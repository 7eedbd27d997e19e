"""Matrix factorisation with ranking losses."""
