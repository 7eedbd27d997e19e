"""Latent Plackett-Luce: communities of users."""
