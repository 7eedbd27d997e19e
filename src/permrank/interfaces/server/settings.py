"""What a server is told when it starts; it travels to every worker process as JSON."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import os
from dataclasses import dataclass

from permrank.errors import InputError

ENVIRONMENT = "PERMRANK_SERVE"
"""Variable of the environment that hands the settings to worker processes."""
_BLAS, _OURS = "OPENBLAS_NUM_THREADS", "PERMRANK_SERVE_BLAS"


@dataclass(frozen=True)
class Settings:
    """How a server runs.

    Attributes
    ----------
    db : str
        The SQLite file.
    model : str or None
        The model file that is served, or None.
    host, port : str, int
        Where it listens.
    keys : bool
        Whether keys are asked for. Without, everybody who reaches the server may vote, read and ask the model; and if
        it listens on loopback only, administer.
    hosts : tuple of str
        Names under which browsers may reach it, beside numbers and localhost.
    secure : bool
        Whether it is reached by HTTPS, through a proxy: cookies are then for HTTPS alone.
    rate, burst : float, int
        Requests a second, and at once, of one caller; 0 is without limit.
    body_bytes : int
        The largest body of a request.
    streams : int
        The most open event streams of this process.
    refit_answers, refit_seconds : int, float
        The model is fitted again after so many new lists, and at least so long after the last time; 0 is never.
    workers : int
        Web processes.
    """

    db: str
    model: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    keys: bool = False
    hosts: tuple[str, ...] = ()
    secure: bool = False
    rate: float = 50.0
    burst: int = 200
    body_bytes: int = 1 << 20
    streams: int = 500
    refit_answers: int = 100
    refit_seconds: float = 300.0
    workers: int = 1

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

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


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only; a name counts if it is localhost.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_reachable(host: str, *, has_key: bool, is_open: bool) -> None:
    """Refuse to listen beyond this machine without a key, unless that is what was asked for."""
    if not is_loopback(host) and not has_key and not is_open:
        raise InputError(
            f"--host {host} can be reached from other machines, and no key protects it: add --admin-key new (it makes "
            "one and prints it), or --open to let everybody who reaches it vote and read"
        )
