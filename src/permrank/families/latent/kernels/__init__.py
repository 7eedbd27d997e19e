"""Latent communities: stages, memberships, insertion and draws."""
