"""Small public tables that the R packages PlackettLuce and BradleyTerry2 document, and what these packages print.

Data are facts from the literature; estimates were printed by R, in the places that each comment names.
"""

import permrank as pr

# Davidson (1970), example 2, as in PlackettLuce's `pudding`: brands i and j, wins of either, ties.
PUDDING = """
1 2 19 22 16  1 3 16 19 12  2 3 19 19 10  1 4 18 23 13  2 4 23 19  9  3 4 19 20 15  1 5 13 19 18  2 5 16 20 12
3 5 16 15 17  4 5 17 14 16  1 6 18 21 12  2 6 22 20 12  3 6 13 18 10  4 6 14 19 18  5 6 11 21 12
"""

# Stigler (1994) in Agresti (2002, p. 448), BradleyTerry2's `citations`: cited, citing, how often.
CITATIONS = [
    ("Comm Statist", "Biometrika", 33), ("JASA", "Biometrika", 320), ("JRSS-B", "Biometrika", 284),
    ("Biometrika", "Comm Statist", 730), ("JASA", "Comm Statist", 813), ("JRSS-B", "Comm Statist", 276),
    ("Biometrika", "JASA", 498), ("Comm Statist", "JASA", 68), ("JRSS-B", "JASA", 325),
    ("Biometrika", "JRSS-B", 221), ("Comm Statist", "JRSS-B", 17), ("JASA", "JRSS-B", 142),
]  # fmt: skip
# BTabilities(citeModel) in tests/BTabilities.Rout.save of BradleyTerry2 1.1.2: ability and standard error, measured
# from Biometrika, from JASA, and from the mean (sum to zero contrasts).
CITATIONS_BY_REFERENCE = {
    "Biometrika": {
        "Comm Statist": (-2.9490725, 0.10254534), "JASA": (-0.4795698, 0.06058873), "JRSS-B": (0.2689541, 0.07082997),
    },
    "JASA": {
        "Biometrika": (0.4795698, 0.06058873), "Comm Statist": (-2.4695027, 0.09817049),
        "JRSS-B": (0.7485238, 0.07294356),
    },
    None: {
        "Biometrika": (0.7899221, 0.04333047), "Comm Statist": (-2.1591504, 0.07257974),
        "JASA": (0.3103523, 0.04164102), "JRSS-B": (1.0588761, 0.05304699),
    },
}  # fmt: skip

# Agresti (2002, p. 438), BradleyTerry2's `baseball`: home team, then wins and losses at home against the others, which
# come in the order of the rows.
BASEBALL = {
    "Milwaukee": "4-3 4-2 4-3 6-1 4-2 6-0",
    "Detroit": "3-3 4-2 4-3 6-0 6-1 4-3",
    "Toronto": "2-5 4-3 2-4 4-3 4-2 6-0",
    "New York": "3-3 5-1 2-5 4-3 4-2 6-1",
    "Boston": "5-1 2-5 3-3 4-2 5-2 6-0",
    "Cleveland": "2-5 3-3 3-4 4-3 4-2 2-4",
    "Baltimore": "2-5 1-5 1-6 2-4 1-6 3-4",
}
# summary(baseballModel1) in tests/baseball.Rout.save of BradleyTerry2: estimate, standard error, z, p, from Baltimore.
BASEBALL_SUMMARY = {
    "Boston": ("1.1077", "0.3339", "3.318", "0.000908"),
    "Cleveland": ("0.6839", "0.3319", "2.061", "0.039345"),
    "Detroit": ("1.4364", "0.3396", "4.230", "2.34e-05"),
    "Milwaukee": ("1.5814", "0.3433", "4.607", "4.09e-06"),
    "New York": ("1.2476", "0.3359", "3.715", "0.000203"),
    "Toronto": ("1.2945", "0.3367", "3.845", "0.000121"),
}
# Of the same: AIC with the binomial coefficients of the 42 rows, and the deviances of equal abilities and of the model.
BASEBALL_AIC, BASEBALL_DEVIANCES = "140.52", (78.015, 44.053)

# summary(mod) in PlackettLuce's vignette "Introduction to PlackettLuce", pudding with npseudo = 0 and maxit = 7:
# estimate, standard error, z, p. Its 7 sweeps are not convergence, as it warns; brand 4 shows it in the fourth digit.
PUDDING_SUMMARY = {
    2: (0.2202, 0.1872, 1.176, 0.239429),
    3: (0.1530, 0.1935, 0.790, 0.429271),
    4: (0.1753, 0.1882, 0.931, 0.351683),
    5: (0.1339, 0.1927, 0.695, 0.487298),
    6: (0.3771, 0.1924, 1.960, 0.049983),
    None: (-0.2919, 0.0825, -3.539, 0.000402),
}
# summary(qvcalc(mod)) in the same place: quasi standard errors.
PUDDING_QUASI = {1: 0.1328950, 2: 0.1327373, 3: 0.1395740, 4: 0.1330240, 5: 0.1399253, 6: 0.1392047}


def pudding():
    """Comparisons of six brands of chocolate pudding, with ties."""
    numbers = [int(number) for number in PUDDING.split()]
    lists, weights = [], []
    for k in range(0, len(numbers), 5):
        i, j, wins, losses, ties = numbers[k : k + 5]
        lists += [[i, j], [j, i], [{i, j}]]
        weights += [wins, losses, ties]
    return pr.Rankings.from_lists(lists, weights=weights)


def citations():
    """Citations between four journals; the one that is cited wins."""
    return pr.Rankings.from_lists([[a, b] for a, b, _ in CITATIONS], weights=[n for *_, n in CITATIONS])


def baseball():
    """Games of 1987 between seven teams."""
    teams = list(BASEBALL)
    lists, weights = [], []
    for home, results in BASEBALL.items():
        for away, result in zip([team for team in teams if team != home], results.split(), strict=True):
            for winner, loser, times in zip((home, away), (away, home), result.split("-"), strict=True):
                if int(times):
                    lists.append([winner, loser])
                    weights.append(int(times))
    return pr.Rankings.from_lists(lists, weights=weights)
