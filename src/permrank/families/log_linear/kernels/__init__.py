"""Log-linear models: energies, moves, insertion, pseudo-likelihood, subsets and annealing."""
