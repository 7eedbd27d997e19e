"""Counters in the text format of Prometheus, of this process."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Requests by method, route and status, and how long they took by route."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._times: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        method = method if method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD") else "OTHER"
        self._requests[method, route, status] += 1
        self._times.setdefault(route, [0] * (len(_BOUNDS) + 1))[bisect.bisect_left(_BOUNDS, seconds)] += 1
        self._sums[route] += seconds  # type: ignore[assignment]

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it as text."""
        lines = ["# TYPE permrank_requests_total counter"]
        for (method, route, status), count in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"permrank_requests_total{{{labels}}} {count}")
        lines.append("# TYPE permrank_request_seconds histogram")
        for route, counts in sorted(self._times.items()):
            total = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                total += count
                lines.append(f'permrank_request_seconds_bucket{{route="{route}",le="{bound}"}} {total}')
            lines.append(f'permrank_request_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}')
            lines.append(f'permrank_request_seconds_count{{route="{route}"}} {total}')
        for name, value in gauges.items():
            lines += [f"# TYPE permrank_{name} gauge", f"permrank_{name} {value:g}"]
        return "\n".join(lines) + "\n"
