"""What there is to learn: questions to the file that are cheap enough to be asked every other second."""

from __future__ import annotations

import time

from permrank.interfaces.server.polls import MODEL
from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Store

FEWEST = 20
"""From so many rankings on tastes are looked for."""


def something_to_learn(store: Store, settings: Settings) -> bool:
    """Whether a process that learns would have something to do."""
    return model_is_due(store, settings) or bool(changed_polls(store))


def model_is_due(store: Store, settings: Settings) -> bool:
    """Whether there are enough new lists, and the last version is old enough."""
    if settings.model is None or not settings.refit_answers:
        return False
    last = store.row("SELECT seq, created FROM model_versions ORDER BY version DESC LIMIT 1")
    seq, created = (0, 0.0) if last is None else (int(last["seq"]), float(last["created"]))
    new = store.row("SELECT count(DISTINCT person) FROM answers WHERE poll = ? AND seq > ?", MODEL, seq)
    enough = new is not None and int(new[0]) >= settings.refit_answers
    return enough and time.time() - created >= settings.refit_seconds


def changed_polls(store: Store) -> list[str]:
    """Polls with rankings of enough people for tastes, that have changed since tastes were looked for."""
    rows = store.rows(
        "SELECT a.poll FROM answers a LEFT JOIN communities c ON c.poll = a.poll WHERE a.poll != ? "
        "GROUP BY a.poll HAVING max(a.seq) > coalesce(max(c.seq), 0) "
        "AND count(DISTINCT CASE WHEN a.kind IN ('list', 'tiers') THEN a.person END) >= ?",
        MODEL, FEWEST,
    )  # fmt: skip
    return [row[0] for row in rows]
