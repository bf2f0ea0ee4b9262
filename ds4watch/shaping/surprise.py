"""How much of a text the rest of it foretells: an n-gram model fitted on the text itself.

A segment's surprise is its cross-entropy in bits under the model of all other segments that are
left (bigrams, backed off to words, backed off to a price for a word that occurs nowhere else). It
is what the text's perplexity loses with the segment. A removed segment leaves the model: of two
copies, the second becomes surprising once the first is gone.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Collection, Sequence

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_APART = r"\s(){}\[\]<>\"“”,;|`"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}](?:[^{_APART}{_CJK}]*[^\W{_CJK}])?")
"""A number, a path or an identifier is one word; so is a letter of a script without spaces."""
_NUMBER = re.compile(r"\d[\d.,:/%-]*[^\W\d_]{0,2}")
_NAME = re.compile(r"[^\W\d_a-z][a-zß-ÿ'’-]+")  # noqa: RUF001 - an apostrophe as typeset
_COMMON_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have "
    "from or had an they which one you were all her she there would their we him been has when "
    "who will no more if out so up what its about than into them can only other time new some "
    "could these two may first then do any my now such like our over me even most made after "
    "also did many off before must well through back years where much your way down should "
    "because each those people how too very just still between both under never same another "
    "while last might us go since during always without against within itself every until used "
    "use make see does being here own i am yes nor yet thus however whether upon per via "
)
_COMMON = frozenset(_COMMON_WORDS.split())
_COMMON_COUNT = 4.0
"""Pseudo-count of a common English word: in a short text one may well occur once only."""
_LETTERS_PER_WORD = 5.0


class Model:
    """Counts of words and pairs over segments that can be taken out one by one."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._ids: dict[str, int] = {"": 0}
        self._bonus: list[float] = [0.0]
        self._prior: list[float] = [0.0]
        self._words = [self._encode(text) for text in texts]
        self._costs = [
            math.sqrt(len(words) * (len(text) + 1) / _LETTERS_PER_WORD)
            for text, words in zip(texts, self._words, strict=True)
        ]
        self._uni = [0] * len(self._ids)
        self._bi: dict[int, int] = {}
        for words in self._words:
            self._add(words, 1)
        self._total = float(sum(len(words) for words in self._words)) + 1.0

    def _encode(self, text: str) -> list[int]:
        ids = self._ids
        found = []
        for word in _WORD.findall(text):
            key = word.lower()
            number = ids.get(key)
            if number is None:
                number = ids[key] = len(ids)
                self._bonus.append(_novelty_bonus(word))
                self._prior.append(_COMMON_COUNT if key in _COMMON else 0.0)
            found.append(number)
        return found

    def _add(self, words: list[int], sign: int) -> None:
        uni, bi = self._uni, self._bi
        previous = 0
        for word in words:
            uni[word] += sign
            pair = previous << 32 | word
            bi[pair] = bi.get(pair, 0) + sign
            previous = word

    def remove(self, index: int) -> None:
        """Take a segment out for good."""
        self._add(self._words[index], -1)
        self._total -= len(self._words[index])

    def surprise(self, index: int) -> float:
        """Return a segment's bits under all others, by what it costs.

        The cost lies between its words and its length: bits a word alone would favour long
        identifiers, bits a letter alone short words.
        """
        words = self._words[index]
        if not words:
            return 0.0
        self._add(words, -1)
        bits = self._bits(words, self._total - len(words))
        self._add(words, 1)
        return bits / self._costs[index]

    def _bits(self, words: list[int], total: float) -> float:
        uni, bi, prior, bonus, log2 = self._uni, self._bi, self._prior, self._bonus, math.log2
        ceiling = log2(total + 2.0) + 2.0
        bits, previous = 0.0, 0
        for word in words:
            count = uni[word] + prior[word]
            if count:
                pairs = bi[previous << 32 | word]
                chance = 0.6 * count / total
                if pairs:
                    chance += 0.4 * pairs / (uni[previous] + 2.0 if previous else total)
                bits -= log2(min(chance, 1.0))
            else:
                bits += ceiling + bonus[word]
            previous = word
        return bits


def _novelty_bonus(word: str) -> float:
    """Return the bits that a word is worth on top if it occurs nowhere else.

    A number or a name cannot be guessed from anything else in the text, however well the words
    around it can: ten sentences alike but for that one word are ten facts.
    """
    if _NUMBER.fullmatch(word):
        return 24.0
    return 10.0 if _NAME.fullmatch(word) else 0.0


def least_surprising(
    texts: Sequence[str], removable: Collection[int], *, sizes: Sequence[int], excess: float
) -> set[int]:
    """Return which of the `removable` to remove so that at least `excess` of `sizes` goes.

    Greedy and lazy: surprise only grows as others leave, so a segment is looked at again only
    when its turn comes, and at most twice. The later of two equal ones goes first.
    """
    model = Model(texts)
    heap = [(model.surprise(index), -index, 0) for index in removable]
    heapq.heapify(heap)
    removed: set[int] = set()
    looked_at = [0] * len(texts)
    while heap and excess > 0:
        _, negative, seen = heapq.heappop(heap)
        index = -negative
        if seen < len(removed) and looked_at[index] < 2:
            looked_at[index] += 1
            again = model.surprise(index)
            if heap and again > heap[0][0]:
                heapq.heappush(heap, (again, negative, len(removed)))
                continue
        model.remove(index)
        removed.add(index)
        excess -= sizes[index]
    return removed
