"""The data sets that `permrank.datasets` knows: whose they are, where they come from, and their counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes
    ----------
    title, owner, page, terms, citation : str
        What it is, whose, where it is described, the owner's terms in short, and what to cite.
    file : str
        Name of the archive; empty for what needs none.
    address : str
        Where the owner hands it out; empty if there is no such file in this layout.
    sha256 : str
        Of the owner's archive, where it is known with certainty; else empty.
    counts : mapping of str to (users, items, entries, total weight)
        Facts about the content by part, checked after every load.
    fingerprints : mapping of str to str
        `Rankings.fingerprint` by part (of sorted ballots, where there are no voters), checked likewise.
    """

    title: str
    owner: str
    page: str
    terms: str
    citation: str
    file: str = ""
    address: str = ""
    sha256: str = ""
    counts: Mapping[str, tuple[int, int, int, float]] | None = None
    fingerprints: Mapping[str, str] | None = None


_GROUPLENS_TERMS = "research only; no redistribution; no commercial use without permission; acknowledge in publications"
_GROUPLENS_CITATION = (
    "F. M. Harper and J. A. Konstan (2015), The MovieLens Datasets: History and Context, "
    "ACM Transactions on Interactive Intelligent Systems 5(4), 19"
)
_SUSHI = {
    "owner": "Toshihiro Kamishima",
    "page": "https://www.kamishima.net/sushi/",
    "terms": "any research; no redistribution without permission; citation appreciated",
    "citation": ("T. Kamishima (2003), Nantonac Collaborative Filtering: Recommendation Based on Order Responses, KDD"),
    "file": "sushi3-2016.zip",
    "address": "https://www.kamishima.net/asset/sushi3-2016.zip",
}

DATASETS: Mapping[str, Entry] = {
    "ml-100k": Entry(
        title="MovieLens 100K: ratings of films from 1 to 5",
        owner="GroupLens Research, University of Minnesota",
        page="https://grouplens.org/datasets/movielens/100k/",
        terms=_GROUPLENS_TERMS,
        citation=_GROUPLENS_CITATION,
        file="ml-100k.zip",
        address="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        counts={"": (943, 1682, 100_000, 943)},
        fingerprints={"": "3458c9c9f9b7e19121ae60a65cda9ecb46830073bcf3540caeff6cb9f12870dd"},
    ),
    "ml-1m": Entry(
        title="MovieLens 1M: ratings of films from 1 to 5",
        owner="GroupLens Research, University of Minnesota",
        page="https://grouplens.org/datasets/movielens/1m/",
        terms=_GROUPLENS_TERMS,
        citation=_GROUPLENS_CITATION,
        file="ml-1m.zip",
        address="https://files.grouplens.org/datasets/movielens/ml-1m.zip",
        sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        counts={"": (6040, 3706, 1_000_209, 6040)},
        fingerprints={"": "d0caab9070d02ddaa27dee8b24f5a2009a7fc05c7e35168d80bae1533b72c6f0"},
    ),
    "sushi": Entry(
        title="SUSHI, item set B: each person ranks 10 of 100 kinds",
        counts={"b": (5000, 100, 50_000, 5000)},
        fingerprints={"b": "8ee8eabe8d63d2287aa6eb72c3bdcadd54dc8dd50b412f14c02d8225fbf93cc9"},
        **_SUSHI,
    ),
    "sushi-10": Entry(
        title="SUSHI, item set A: each person ranks the same 10 kinds",
        counts={"a": (5000, 10, 50_000, 5000)},
        fingerprints={"a": "91cfef5138d71d66f66490a54543a7103c3b27784d98eae77467b4bc00da8cbb"},
        **_SUSHI,
    ),
    "apa": Entry(
        title="1980 election of the American Psychological Association: ballots over five candidates",
        owner="American Psychological Association; published by P. Diaconis",
        page="the R package ConsRank (data APAred and APAFULL)",
        terms="packaged under the GPL; cite Diaconis",
        citation="P. Diaconis (1988), Group Representations in Probability and Statistics, IMS",
        file="apa1980.zip",
        counts={"complete": (120, 5, 600, 5738), "all": (205, 5, 825, 15_449)},
        fingerprints={
            "complete": "09b08d6aa0a254893de9b06e2eefbcbd1f457381f461cd897a446dfe3b7bd15e",
            "all": "54768172c2f50b50d482df0c943de18230121fa4ab3e5f7581d6d3cec10879e2",
        },
    ),
    "nascar": Entry(
        title="NASCAR 2002: 36 races of 43 drivers",
        owner="compiled by D. R. Hunter",
        page="the R package PlackettLuce (data nascar)",
        terms="packaged under the GPL; cite Hunter",
        citation=(
            "D. R. Hunter (2004), MM algorithms for generalized Bradley-Terry models, "
            "Annals of Statistics 32(1), 384-406"
        ),
        file="nascar2002.zip",
        counts={"": (36, 87, 1548, 36)},
        fingerprints={"": "89f713fcf08b0473d534f427fa6b7abd0a74607724980d3d05a0ba9028a071a2"},
    ),
    "filmtrust": Entry(
        title="FilmTrust: ratings of films from 0.5 to 4",
        owner="Guibing Guo",
        page="https://guoguibing.github.io/librec/datasets.html",
        terms="free for research; cite Guo, Zhang and Yorke-Smith",
        citation=(
            "G. Guo, J. Zhang and N. Yorke-Smith (2013), A Novel Bayesian Similarity Measure for "
            "Recommender Systems, IJCAI, 2619-2625"
        ),
        file="filmtrust.zip",
        address="https://guoguibing.github.io/librec/datasets/filmtrust.zip",
        counts={"": (1508, 2071, 35_494, 1508)},
        fingerprints={"": "3c1938cf6ce1c6dfbfc857718fe6c61890ed54e67fcdb11a20aa3458f5de6478"},
    ),
    "gowalla": Entry(
        title="Gowalla: who checked in where, in the split of NGCF and LightGCN; sets without order",
        owner="Stanford Network Analysis Project",
        page="https://snap.stanford.edu/data/loc-Gowalla.html, as split in https://github.com/gusye1234/LightGCN-PyTorch",
        terms="public, for research; cite Cho, Myers and Leskovec",
        citation=(
            "E. Cho, S. A. Myers and J. Leskovec (2011), Friendship and Mobility: User Movement in "
            "Location-Based Social Networks, KDD, 1082-1090"
        ),
        file="gowalla.zip",
        counts={
            "train": (29_858, 40_981, 810_128, 29_858),
            "test": (29_858, 40_981, 217_242, 29_858),
            "all": (29_858, 40_981, 1_027_370, 29_858),
        },
        fingerprints={
            "train": "29e2bca86a5feecfd9998684e9c0e5948a780a3ae61997969deeb5177584c787",
            "test": "80762ec63ceb7b926fc4ab30923d06435620739570ec4ef4c26fa74258f76768",
            "all": "bb60bda084b324198404b5205d614a5c6e8d04c19ba154135d98e754c370cf02",
        },
    ),
    "lastfm-friends": Entry(
        title="Last.fm: who listened to whom, in the split of SocialLGN; sets without order",
        owner="HetRec 2011; Last.fm",
        page="https://grouplens.org/datasets/hetrec-2011/, as split in https://github.com/leo0481/SocialLGN",
        terms="public, for research; cite Cantador, Brusilovsky and Kuflik",
        citation=(
            "I. Cantador, P. Brusilovsky and T. Kuflik (2011), Second Workshop on Information Heterogeneity and "
            "Fusion in Recommender Systems, RecSys, 387-388"
        ),
        file="lastfm-friends.zip",
        counts={
            "train": (1892, 17_632, 74_267, 1892),
            "test": (1892, 17_632, 18_567, 1881),
            "all": (1892, 17_632, 92_834, 1892),
        },
        fingerprints={
            "train": "68d424cdd561e0cad7ad895ab2a12bb8e764025850d8066d5d2cb18e0bca9337",
            "test": "b620e45fb2eaf79b9808ee03f10a9ab2a7d165f2ae0e716dbbb24563d8e43645",
            "all": "6cea2311f8e4d5f9be80a3619edd3515387bc1fad29412360f4e6c9f4b9a65ac",
        },
    ),
    "simulated": Entry(
        title="Users of four communities rank dishes; drawn from a known model",
        owner="permrank",
        page="",
        terms="free",
        citation="",
    ),
}
