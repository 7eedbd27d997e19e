"""What there is to learn: questions to the file that are cheap enough to be asked every other second."""

from __future__ import annotations

import time

from permrank.interfaces.server.settings import Settings
from permrank.interfaces.server.store import Store
from permrank.interfaces.server.versions import base_of, newest

FEWEST = 20
"""From so many rankings on tastes are looked for."""


def something_to_learn(store: Store, settings: Settings) -> bool:
    """Whether a process that learns would have something to do."""
    return model_is_due(store, settings) or bool(changed_polls(store))


def model_is_due(store: Store, settings: Settings) -> bool:
    """Whether there are enough new lists for the model that is served, and the last attempt is old enough."""
    if settings.model is None or not settings.refit_answers:
        return False
    base = base_of(settings.model)
    last = newest(store, base)
    count = "SELECT count(DISTINCT person) FROM lists WHERE base = ? AND seq > ?"
    new = store.rows(count, base, 0 if last is None else last.seq)[0][0]
    began = store.rows("SELECT max(created) FROM model_versions WHERE base = ?", base)[0][0] or 0.0
    return int(new) >= settings.refit_answers and time.time() - float(began) >= settings.refit_seconds


def changed_polls(store: Store) -> list[str]:
    """Polls with rankings of enough people for tastes, that have changed since tastes were looked for."""
    rows = store.rows(
        "SELECT p.id FROM polls p LEFT JOIN communities c ON c.poll = p.id "
        "WHERE (SELECT max(seq) FROM answers WHERE poll = p.id) > coalesce(c.seq, 0) "
        "AND (SELECT count(DISTINCT person) FROM answers WHERE poll = p.id AND kind IN ('list', 'tiers')) >= ?",
        FEWEST,
    )
    return [row[0] for row in rows]
