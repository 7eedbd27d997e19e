"""Matrix factorisation with pairwise and listwise losses."""
