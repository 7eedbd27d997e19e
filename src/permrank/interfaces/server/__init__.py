"""``permrank serve``: a service and pages where people rank, answer pairs, and see what the group and a model think.

One SQLite file holds polls, people, keys, answers and versions of the model; everything else is derived from it.
Needs the extra ``serve``: nothing else in permrank imports this room but the command, when it is run.
"""
