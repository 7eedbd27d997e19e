"""`Summary`: the table of a fitted model that statisticians expect, as text, HTML, a frame and JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from permrank.checks import require_above, require_between
from permrank.markup import Result, printable, shown_number, shown_p
from permrank.types import Named

# Rows that are printed; the frame has all.
_MOST_ROWS = 60
_TITLES = {"standard_error": "std. error", "quasi_standard_error": "quasi s.e."}


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Result):
    """What ``model.summary()`` returns: estimates with their errors, and how well the model fits.

    Attributes
    ----------
    model : str
        The model, and what it was fitted to.
    frame : polars.DataFrame
        One row for each parameter: ``item`` (or ``community``), a ``title`` where items have some, ``parameter``,
        ``estimate``, ``standard_error``, ``quasi_standard_error``, ``low`` and ``high`` of the interval, ``z`` and its
        two-sided ``p``. Null where there is no such number.
    log_likelihood : float
        Of the data that the model was fitted to.
    df : float
        Parameters; under a prior the effective number, tr((I + P)^-1 I) for the information I of the data and P of
        the prior.
    n : float
        What was observed, so many ``unit``.
    unit : str
        ``rankings`` or ``comparisons``.
    level : float
        Of the intervals.
    reference : id, or None
        The item whose score is 0; None if the scores have mean zero (under a prior: as they are).
    null_log_likelihood : float or None
        With equal worths; None where that is no special case, or under a prior.
    notes : tuple of str
        What to keep in mind.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"], ["c", "a"]])
    >>> summary = pr.PlackettLuce().fit(ballots).summary(reference="a")
    >>> summary.frame.select("item", "estimate").rows()[0]
    ('a', 0.0)
    >>> round(summary.aic, 2), summary.df, summary.n
    (15.2, 2.0, 4.0)
    """

    model: str
    frame: pl.DataFrame
    log_likelihood: float
    df: float
    n: float
    unit: str
    level: float
    reference: object | None = None
    null_log_likelihood: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def aic(self) -> float:
        """Akaike's criterion, -2 log L + 2 df."""
        return 2.0 * self.df - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, -2 log L + df log n."""
        return math.log(max(self.n, 1.0)) * self.df - 2.0 * self.log_likelihood

    @property
    def null_test(self) -> tuple[float, float, float] | None:
        """Likelihood-ratio statistic, degrees of freedom and p value of equal worths; None where there is no test."""
        if self.null_log_likelihood is None:
            return None
        from scipy.special import chdtrc

        df = float(self.frame.filter(pl.col("parameter") == "score").height - 1)
        statistic = max(2.0 * (self.log_likelihood - self.null_log_likelihood), 0.0)
        return statistic, df, float(chdtrc(df, statistic)) if df else 1.0

    def to_dict(self) -> Named:
        """All of it, for JSON."""
        test = self.null_test
        return {
            "model": self.model,
            "reference": self.reference,
            "level": self.level,
            "parameters": self.frame.to_dicts(),
            "log_likelihood": self.log_likelihood,
            "df": self.df,
            "aic": self.aic,
            "bic": self.bic,
            "n": self.n,
            "unit": self.unit,
            "equal_worths": None if test is None else dict(zip(("statistic", "df", "p"), test, strict=True)),
            "notes": list(self.notes),
        }

    def _notes(self) -> list[str]:
        left = self.frame.height - _MOST_ROWS
        found = [f"... and {left:,} more rows in .frame"] if left > 0 else []
        found += [
            f"log-likelihood {self.log_likelihood:.4f} on {_count(self.df)} df, AIC {self.aic:.2f}, BIC {self.bic:.2f}",
            f"n = {_count(self.n)} {self.unit}",
        ]
        if (test := self.null_test) is not None:
            statistic, df, p = test
            found.append(f"against equal worths: chi-square {statistic:.3f} on {_count(df)} df, p {_equal(p)}")
        return found + [f"note: {note}" for note in self.notes]

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        who = self.frame.columns[0]
        known = [name for name, values in self.frame.to_dict().items() if values.null_count() < self.frame.height]
        numbers = [name for name in known if self.frame.schema[name].is_float()]
        cells = []
        for row in self.frame.head(_MOST_ROWS).iter_rows(named=True):
            label = row["parameter"] if row[who] is None else row.get("title") or row[who]
            if who == "community":
                label = f"{row['parameter']} {row[who]}"
            shown = [shown_p(row[name]) if name == "p" else shown_number(row[name]) for name in numbers]
            cells.append([printable(label), *shown])
        first = "parameter" if who == "community" else who
        return [first, *(_TITLES.get(name, name) for name in numbers)], cells

    def _title(self) -> str:
        heading = f"{self.level:.0%} intervals"
        if self.reference is not None:
            own = self.frame.filter(pl.col(self.frame.columns[0]) == self.reference).to_dicts()
            name = next((row.get("title") for row in own), None) or self.reference
            heading += f", measured from {printable(name)}"
        return f"{printable(self.model)}\n{heading}"


def require_level(level: object) -> None:
    """Raise unless it is a share between 0 and 1."""
    require_above("level", level, 0.0)
    require_between("level", level, 0.0, 1.0 - 1e-9)


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _equal(p: float) -> str:
    text = shown_p(p)
    return text if text.startswith("<") else f"= {text}"
