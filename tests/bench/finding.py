"""Finding managers among a thousand: making the index, and searching it."""

import time
from dataclasses import replace
from itertools import product

from servers import bench_managers

from schema.index import SchemaIndex
from schema.managers import Link, Manager

_SEARCHES = 50

_AREAS = """
    access asset audit bank batch branch budget building campaign carrier case channel claim client
    contract course customer delivery device employee event export field fleet import incident
    invoice item job lead loan machine market material meeting network order part payment plan
    policy product project purchase quality sales service shipment site supplier
""".split()
_KINDS = """
    account address approval assignment category change comment document entry forecast history
    limit note rating report request review rule schedule status
""".split()
_FIELDS = """
    amount code color comment cost country created currency density discount due ends grade hours
    kind language level location method minutes name number owner percent position price priority
    quantity reason region score size stage starts subject tax title unit valid value version weight
""".split()
_QUESTIONS = (
    "Which purchase orders are late?",
    "payment history of customers",
    "what is the price of a product in euros",
    "bank acount limits",  # misspelled
    "list all delivry addresses in Copenhagen, with their region and country",  # misspelled
    "zebras and elephants",  # found nowhere
    "What data do you have?",  # lists the catalogue
    "name code status kind",  # nearly everywhere
)


def index_ms(number: int) -> float:
    """Return the processor time of making an index and searching it for the first time.

    The ``number`` makes its texts others than those of earlier indexes, which it could profit from.
    """
    managers = _crowd(number)
    start = time.process_time()
    SchemaIndex(managers).search(_QUESTIONS[0])
    return (time.process_time() - start) * 1e3


def search_ms() -> float:
    """Return the processor time of one search, on average over different questions."""
    index = SchemaIndex(_crowd(0))
    index.search(_QUESTIONS[0])
    start = time.process_time()
    for _ in range(_SEARCHES):
        for question in _QUESTIONS:
            index.search(question)
    return (time.process_time() - start) / (_SEARCHES * len(_QUESTIONS)) * 1e3


def _crowd(number: int) -> list[Manager]:
    """Make 1,000 managers with ten fields and three relations each."""
    [part] = [manager for manager in bench_managers().build() if manager.name == "Part"]
    column, relation = part.columns["name"], part.links["supplier"].relation
    names = [area.title() + kind.title() for area, kind in product(_AREAS, _KINDS)]
    crowd: list[Manager] = []
    for at, (area, kind) in enumerate(product(_AREAS, _KINDS)):
        fields = [_FIELDS[(at + 7 * n) % len(_FIELDS)] for n in range(10)]
        targets = [names[(at * n + 1) % len(names)] for n in (3, 5, 7)]
        manager = replace(
            part,
            name=names[at],
            description=f"The {kind} of each {area}, in edition {number}.",
            use_when=f"what the {kind} of a {area} was, and who changed it (table {number}_{at})",
            aliases=(f"{area} {kind}s",),
            columns={name: replace(column, name=name) for name in fields},
            links={f"{target.lower()}s": Link(relation, target) for target in targets},
        )
        crowd.append(manager)
    return crowd
