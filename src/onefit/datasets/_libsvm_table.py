"""The sets of the LIBSVM collection that can be loaded: facts and checksums."""

from __future__ import annotations

from typing import Literal, NamedTuple

Task = Literal["classification", "regression"]


class LibsvmSet(NamedTuple):
    """What is known of a data set before it is read."""

    task: Task
    n_rows: int
    n_features: int
    checksum: str
    """SHA-256 of rows and targets, however they are written: see ``content_checksum``."""
    about: str
    published_as: str = ""
    """Name of the published file, if it is another than that of the set."""


_ADULT = (
    "UCI Adult: does a person earn more than $50,000 a year? Fourteen attributes as 123 binary "
    "features (J. Platt, 1998)."
)
_WEB = "Web pages: does a page belong to a category? 300 binary keyword features (J. Platt, 1998)."

LIBSVM_SETS: dict[str, LibsvmSet] = {
    "a1a": LibsvmSet(
        "classification",
        1605,
        123,
        "1d9830491a5d6f9f4275242467966b30fda00c254a6237681019408a57b5be7e",
        _ADULT,
    ),
    "a2a": LibsvmSet(
        "classification",
        2265,
        123,
        "54d4242706fdcc92eecfbae986e951f4370bd04846b2e59be4d3cfd599b9017b",
        _ADULT,
    ),
    "a3a": LibsvmSet(
        "classification",
        3185,
        123,
        "5164e8d8450e18a273c9174062fcc0365e889600b28209ae082e76452a9af59c",
        _ADULT,
    ),
    "fourclass": LibsvmSet(
        "classification",
        862,
        2,
        "2b41123d320082977335e4c0bfc31372e17ca96b9874d11258ceb5cc1eaa1c6b",
        "An artificial problem in the plane (T. K. Ho and E. M. Kleinberg, 1996).",
    ),
    "german.numer": LibsvmSet(
        "classification",
        1000,
        24,
        "9307bebfd64fdff4ffcc4db94a1b25f89b27d1fc0620364ef212ad9dd4fe9703",
        "Statlog German credit: is a customer a bad risk? The numeric version of UCI.",
    ),
    "madelon": LibsvmSet(
        "classification",
        2000,
        500,
        "950600f87b127dca772570025b6ba9d639e10941a9dbbfac06da3396add3a4b2",
        "NIPS 2003, artificial: few informative features among many useless ones. Training set.",
    ),
    "svmguide3": LibsvmSet(
        "classification",
        1243,
        22,
        "fcfe6f5b1e3d19ca010efd8f392a901e38dc2c2c3bfb5a33972512c25819f2cd",
        "A practical example of C.-W. Hsu, C.-C. Chang and C.-J. Lin (2003). Column 22 is zero.",
    ),
    "splice": LibsvmSet(
        "classification",
        1000,
        60,
        "252ad3dce91982a9209ef8dd150730d4c9884c7532cd337e03cd33cf293bbf56",
        "Delve: primate splice junctions in DNA. Training set.",
    ),
    "w1a": LibsvmSet(
        "classification",
        2477,
        300,
        "8587d32f31c96e1ed216f24f9622f782951aca1f577738d8fefde58b6e1a3bd4",
        _WEB,
    ),
    "w2a": LibsvmSet(
        "classification",
        3470,
        300,
        "75ebeabfb268adacb2cca31795d73d257a324ca5a4023b85a0449ca94588f974",
        _WEB + " The order of equal rows may differ from the published file.",
    ),
    "w3a": LibsvmSet(
        "classification",
        4912,
        300,
        "7efdc48692be88d5015fc6d05a4ef0fdbafe1891f90b90a91fc7d5b4b8d4ee4d",
        _WEB,
    ),
    "abalone": LibsvmSet(
        "regression",
        4177,
        8,
        "08ea8f874f9f26faaacc9b02b7e5c171421cb3e072365029f8796cfa47950558",
        "UCI Abalone: the number of rings, which tells the age, from sex, sizes and weights.",
    ),
    "bodyfat": LibsvmSet(
        "regression",
        252,
        14,
        "9625b6879c389a081f38c9534c8637a8ceec133dbe2c83d05113580954685cd2",
        "StatLib: body density. The first feature, percent fat, is computed from the target.",
    ),
    "cpusmall": LibsvmSet(
        "regression",
        8192,
        12,
        "5b003bad32bd58147b03718795c908918746ddbb60b3b18e9b29f119acb3c27e",
        "Delve: share of time a computer spends in user mode, from twelve measures of activity.",
    ),
    "housing": LibsvmSet(
        "regression",
        506,
        13,
        "4ad4bee541a8f9f298d60c918fdbab449106289d3d27082c6426629de19e98bd",
        "StatLib: Boston house prices. One feature is computed from race: for benchmarks only.",
    ),
    "mg": LibsvmSet(
        "regression",
        1385,
        6,
        "769b116ed478bb8491d5f520ebc831ef6cb4df1e2f0a9fee79806d317fa13984",
        "Mackey-Glass series (G. W. Flake and S. Lawrence, 2002), features scaled to [-1, 1].",
        "mg_scale",
    ),
    "mpg": LibsvmSet(
        "regression",
        392,
        7,
        "4565b479256ba5331a04d8258a546545ff9f481bef6a24fcb1324c4e176b00e9",
        "StatLib, UCI: fuel consumption of cars. The six rows without horsepower are left out.",
    ),
    "space_ga": LibsvmSet(
        "regression",
        3107,
        6,
        "d47786b484e01ffe85fcd7571cdb68a9b987eb6478a0b6a61c66acaced1b33dc",
        "StatLib: votes in US counties, 1980. The published file may round the targets.",
    ),
}

ALIASES = {
    "bodfat": "bodyfat",
    "german": "german.numer",
    "german_numer": "german.numer",
    "mg_scale": "mg",
}
"""Other names, in lower case and with underscores for hyphens."""
