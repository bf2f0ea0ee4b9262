"""Facts to plant: sentences unlike their surroundings in nothing but what they say.

Tuning and reporting draw from different halves of every list, templates included.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

KINDS = ("number", "name", "date", "code word", "ordinary words", "the document's words")

_NUMBER = (
    "The pump in hall {a} needs {n} litres of oil a month.",
    "Our deposit for the flat was {n} euros.",
    "There are {n} seats left on the late ferry.",
    "The old bridge carries at most {n} tonnes.",
    "Room {a} is heated to {n} degrees.",
    "The parcel weighed {n} grams when it was handed in.",
    "The reading of the water meter was {n}.",
    "The shop sold {n} umbrellas last spring.",
)
_NAME = (
    "{p} keeps the key to the archive.",
    "The invoice is to be sent to {p} in {t}.",
    "{p} was the first to see the leak.",
    "Ask {p} before the fence is moved.",
    "The ring was found by {p} near {t}.",
    "The house in {t} belongs to {p}.",
    "{p} will chair the meeting instead of the mayor.",
    "The painting was lent to us by {p}.",
)
_DATE = (
    "The lease ends on {d}.",
    "The lift was last inspected on {d}.",
    "Our next audit begins on {d}.",
    "The two of them were married on {d}.",
    "The museum will open again on {d}.",
    "Payment is due by {d}.",
    "The ship left harbour on {d}.",
    "The old password expires on {d}.",
)
_CODE = (
    "The word that opens the gate is {c}.",
    "If somebody calls at night, say {c}.",
    "The safe answers to {c}.",
    "For the refund mention {c} at the desk.",
    "The team goes by the name of {c}.",
    "The rehearsal is cancelled when you hear {c}.",
    "The secret ingredient is {c}.",
    "The wireless key of the guest room is {c}.",
)
_SUBJECTS = (
    "the spare key",
    "the letter from my aunt",
    "the red umbrella",
    "our neighbour's ladder",
    "the broken clock",
    "the winter coat",
    "the bread knife",
    "the box of candles",
    "the photo of the wedding",
    "the garden hose",
    "the cat",
    "the violin",
    "the receipt for the sofa",
    "the torch",
    "the blue bicycle",
    "the jar of honey",
)
_PREDICATES = (
    "hangs behind the mirror in the hall",
    "lies under the third step of the stairs",
    "was given to the baker last week",
    "stands in the shed next to the stove",
    "must never be left out in the rain",
    "will be picked up after lunch by the plumber",
    "is hidden in the hollow tree near the pond",
    "was lost on the way to the station",
    "has to be returned before the holidays",
    "sleeps in the attic when it is cold",
    "smells of smoke since the fire",
    "is older than the house itself",
    "costs less at the market on the hill",
    "belongs to the woman who sings in the choir",
    "fell into the well when the wind rose",
    "cannot be opened without a small hammer",
)
_OWN = (
    "the {w} is never asked about the {x} before the {y}.",
    "for the {w} we always prefer {x} to {y}.",
    "once the {w} fails, both {x} and {y} are stopped.",
    "nobody but the {w} should touch the {x} of the {y}.",
    "without {w} there can be neither {x} nor {y}.",
    "the {w} comes last, after {x} and after {y}.",
    "either the {w} or the {x} goes, the {y} stays.",
    "what the {w} says of the {x} is true of the {y} too.",
)
_PEOPLE = (
    "Marta Lindqvist", "Tobias Ferrante", "Aiko Brandt", "Jonas Okafor", "Petra Vasquez",
    "Samir Holm", "Ilse Novak", "Dario Keane", "Mr Whitcombe", "Greta Olsen", "Luis Amato",
    "Hanna Zielinski", "Old Peters", "Rosa Quint", "Ben Adeyemi", "Clara Voss",
)  # fmt: skip
_TOWNS = (
    "Aarhus", "Trieste", "Bergen", "Lublin", "Cork", "Porto", "Graz", "Ghent", "Turku", "Split",
)  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_CODES = (
    "marigold", "Bluebird", "thimble", "saffron", "Kestrel", "paprika", "walrus", "Tangerine",
    "juniper", "lantern", "Osprey", "nutmeg", "zephyr", "copper", "Hazel", "pumpkin",
)  # fmt: skip
_WORD = re.compile(r"\b[a-z]{5,12}\b")


def half(values: Sequence[str], *, reporting: bool) -> Sequence[str]:
    return values[1::2] if reporting else values[0::2]


class Facts:
    """Makes facts of a kind for a document, no sentence twice."""

    def __init__(self, dice: random.Random, *, reporting: bool) -> None:
        self._dice = dice
        self._reporting = reporting
        self._unused: dict[str, list[str]] = {}

    def make(self, kind: str, document: str) -> str:
        makers: dict[str, Callable[[str], str]] = {
            "number": self._number,
            "name": self._name,
            "date": self._date,
            "code word": self._code,
            "ordinary words": self._ordinary,
            "the document's words": self._own,
        }
        return makers[kind](document)

    def _one(self, values: Sequence[str]) -> str:
        return self._dice.choice(half(values, reporting=self._reporting))

    def _next(self, name: str, values: Sequence[str]) -> str:
        """Return one that was not used yet in this round."""
        left = self._unused.get(name) or [*half(values, reporting=self._reporting)]
        self._dice.shuffle(left)
        chosen = left.pop()
        self._unused[name] = left
        return chosen

    def _number(self, _document: str) -> str:
        number = self._dice.choice((self._dice.randint(13, 99), self._dice.randint(100, 99999)))
        return self._next("number", _NUMBER).format(a=self._dice.randint(2, 40), n=number)

    def _name(self, _document: str) -> str:
        return self._next("name", _NAME).format(p=self._one(_PEOPLE), t=self._one(_TOWNS))

    def _date(self, _document: str) -> str:
        day, month = self._dice.randint(1, 28), self._dice.choice(_MONTHS)
        year = self._dice.randint(1987, 2031)
        written = self._dice.choice(
            (f"{day} {month} {year}", f"{month} {day}", f"{year}-{day % 12 + 1:02}-{day:02}")
        )
        return self._next("date", _DATE).format(d=written)

    def _code(self, _document: str) -> str:
        return self._next("code", _CODE).format(c=self._one(_CODES))

    def _ordinary(self, _document: str) -> str:
        return f"{self._next('subject', _SUBJECTS)} {self._next('predicate', _PREDICATES)}."

    def _own(self, document: str) -> str:
        words = sorted(set(_WORD.findall(document)))
        w, x, y = self._dice.sample(words, 3)
        return self._next("own", _OWN).format(w=w, x=x, y=y)


_PLACES = re.compile(r"(?<=[a-z][.!?])(?: |\n)(?=\S)")


def plant(document: str, facts: Sequence[str], dice: random.Random) -> str:
    """Return the document with each fact after a sentence at random depth, on the same line."""
    places = [match.start() for match in _PLACES.finditer(document)]
    chosen = sorted(dice.sample(places, len(facts)), reverse=True)
    shuffled = [*facts]
    dice.shuffle(shuffled)
    for place, fact in zip(chosen, shuffled, strict=True):
        document = f"{document[:place]} {fact}{document[place:]}"
    return document


def survives(fact: str, text: str) -> bool:
    """Return whether the whole sentence is still there, line breaks aside."""
    return " ".join(fact.split()) in " ".join(text.split())
