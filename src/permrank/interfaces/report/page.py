"""The frame of a self-contained page: everything inline, nothing fetched, light or dark as the reader's system is."""

from __future__ import annotations

import html

from permrank.interfaces.output import printable

_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --ink: #1c2430; --dim: #5b6675; --line: #d8dde4; --soft: #f3f5f8;
  --shade: #1c243033; --best: #0b7a4b; --same: #2c8f68; --worse: #7a8594; --failed: #b3261e;
  --c0: #3567b5; --c1: #d9822b; --c2: #2f9e77; --c3: #b5485d;
  --c4: #7c5bb0; --c5: #8a7a2c; --c6: #2a93a8; --c7: #8d6e63; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --ink: #e6eaf0; --dim: #9aa6b5; --line: #343c48;
  --soft: #1d232c; --shade: #000000aa; --best: #4fd09a; --same: #6fbf9d; --worse: #8793a3; --failed: #ff8a80;
  --c0: #7aa7ea; --c1: #eda45c; --c2: #5fcaa4; --c3: #e58296;
  --c4: #ae92df; --c5: #c9b95f; --c6: #63c3d6; --c7: #bfa195; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p, ul { max-width: 46rem; }
.lead { font-size: 1.1rem; }
.note, small { color: var(--dim); font-size: .85rem; }
pre { background: var(--soft); padding: .75rem 1rem; border-radius: 6px; white-space: pre-wrap; }
/* Shadows at the edges tell that there is more to the side; the covers move along with the table and hide them. */
.scroll { overflow-x: auto; background: linear-gradient(to right, var(--back) 30%, transparent) left / 3rem 100% local,
  linear-gradient(to left, var(--back) 30%, transparent) right / 3rem 100% local,
  linear-gradient(to right, var(--shade), transparent) left / .8rem 100% scroll,
  linear-gradient(to left, var(--shade), transparent) right / .8rem 100% scroll; background-repeat: no-repeat; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--dim); font-weight: 600; font-size: .85rem; }
th:first-child, td:first-child { text-align: left; padding-left: 0; position: sticky; left: 0;
  max-width: min(18rem, 40vw); white-space: normal; background: var(--back); }
th, td { overflow-wrap: normal; } td:first-child { overflow-wrap: break-word; }
.grid th:last-child, .grid td:last-child { white-space: normal; text-align: left; }
.grid th:nth-child(2), .grid td:nth-child(2) { text-align: left; }
tr.best td { font-weight: 700; }
tr.best td:nth-child(-n+4) { color: var(--best); }
tr.same td:nth-child(-n+4) { color: var(--same); }
tr.failed td { color: var(--failed); }
.grid { display: grid; gap: 1.25rem; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); }
.grid > * { min-width: 0; }
figure { margin: 0; }
figcaption { font-weight: 600; margin-bottom: .25rem; }
svg.chart { width: 100%; max-width: 26rem; height: auto; display: block; }
svg.interval { width: 160px; height: 18px; vertical-align: middle; }
@media (max-width: 40rem) { table { font-size: .9rem; } svg.interval { width: 104px; } }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
svg circle { fill: var(--c0); }
svg .axis { stroke: var(--dim); } svg .rail { stroke: var(--line); }
svg .whisker { stroke: var(--c0); stroke-width: 2; }
svg .ideal { stroke: var(--dim); stroke-dasharray: 4 4; }
svg .curve { fill: none; stroke: var(--c0); stroke-width: 2; }
svg.best circle { fill: var(--best); } svg.best .whisker { stroke: var(--best); }
svg.same circle { fill: var(--same); } svg.same .whisker { stroke: var(--same); }
svg.worse circle, svg.cut circle { fill: var(--worse); }
svg.worse .whisker, svg.cut .whisker { stroke: var(--worse); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .5em; }
""" + "".join(f".fill.c{i} {{ fill: var(--c{i}); }} .key.c{i} {{ background: var(--c{i}); }}\n" for i in range(8))


def escape(text: str) -> str:
    """Text for HTML; characters that would steer a terminal or turn the direction of text are shown, not obeyed."""
    return html.escape(printable(text, keep="\n"))


def page(title: str, sections: list[str]) -> str:
    """Sections of HTML as one document."""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        # An empty icon keeps browsers from asking for one.
        f"<link rel='icon' href='data:,'><title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(sections)}</body></html>\n"
    )
