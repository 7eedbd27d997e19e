"""Posteriors over factors of users and items: problem, priors, passes, chain, draws."""
