"""Fixtures of the tests of the service."""

from interfaces_server import keyed_client, open_client

__all__ = ["keyed_client", "open_client"]
