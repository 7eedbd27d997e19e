"""What a server is told when it starts; it travels to every worker process as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass

from permrank.interfaces.server.connections import is_loopback

ENVIRONMENT = "PERMRANK_SERVE"
"""Variable of the environment that hands the settings to worker processes."""
_BLAS, _OURS = "OPENBLAS_NUM_THREADS", "PERMRANK_SERVE_BLAS"


@dataclass(frozen=True)
class Settings:
    """How a server runs."""

    db: str  # the SQLite file
    model: str | None = None  # the model file that is served
    host: str = "127.0.0.1"  # where it listens
    port: int = 8000
    keys: bool = False  # whether an admin's key is known: nothing is then administered without one
    is_open: bool = False  # whether everybody who reaches it may vote, read and ask the model without a key
    public: str = ""  # where people reach it, scheme://name; empty without a proxy or a name
    hosts: tuple[str, ...] = ()  # more names under which browsers may reach it, beside numbers and localhost
    rate: float = 50.0  # requests of one caller a second, 0 without limit
    burst: int = 200  # and at once
    body_bytes: int = 1 << 20  # the largest body of a request
    streams: int = 500  # the most open event streams of a process
    refit_answers: int = 100  # the model is fitted again after so many new lists, 0 is never
    refit_seconds: float = 300.0  # and so long after the last time
    workers: int = 1  # web processes

    @property
    def is_private(self) -> bool:
        """Whether the server is for this machine alone: nothing says that others reach it, and no key protects it.

        A public address and a further name say that a proxy hands on what others send, whatever the server listens to.
        """
        return is_loopback(self.host) and not (self.public or self.hosts or self.keys)

    @property
    def is_secure(self) -> bool:
        """Whether it is reached by HTTPS: cookies are then for HTTPS alone."""
        return self.public.startswith("https://")

    def to_json(self) -> str:
        """For a worker process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """What `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "hosts": tuple(values["hosts"])})


def one_blas_thread() -> None:
    """Have web processes multiply their small matrices in one thread, unless the environment says otherwise.

    To be called before NumPy is loaded. Two threads that wait for each other took four times the processor time.
    """
    if _BLAS not in os.environ:
        os.environ[_BLAS] = "1"
        os.environ[_OURS] = "yes"


def learner_environment() -> dict[str, str]:
    """The environment of the process that learns, which may use all cores."""
    ours = _OURS in os.environ
    return {name: value for name, value in os.environ.items() if not (ours and name in (_BLAS, _OURS))}
