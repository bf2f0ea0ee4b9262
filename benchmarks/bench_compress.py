"""Long prompts with half of their tokens: what survives, how long it takes, what it saves.

python -m benchmarks.bench_compress [documents]; the last line is `ratio=` the share of planted
facts that survive at 50 %, all kinds of fact and of text together but for "the document's words".

Facts stand unquoted after a sentence at random depth, in texts that nobody wrote for this. Seeds
and templates are not those that the model was tuned with. "The document's words" are sentences
made of the text's own words: they look like it, and are told apart.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import aiohttp

from benchmarks.support.corpora import CORPORA, documents
from benchmarks.support.facts import KINDS, Facts, plant, survives
from benchmarks.support.sim_workers import sim_workers
from ds4watch.config.compression import CompressionSettings
from ds4watch.gateway.compressing import PromptCompressor
from ds4watch.shaping.compress import compress

RATIO = 0.5
CHARS = 12_000
OWN = "the document's words"
SEED = 20_260
PREFILL_PER_SECOND = 20_000
Way = Callable[[str, random.Random], str]
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n{2,}")


def ours(text: str, _dice: random.Random) -> str:
    return str(compress({"prompt": text}, ratio=RATIO).body["prompt"])


def random_sentences(text: str, dice: random.Random) -> str:
    sentences = _SENTENCES.split(text)
    order = [*range(len(sentences))]
    dice.shuffle(order)
    left = RATIO * len(text)
    kept: set[int] = set()
    for index in order:
        if left <= 0:
            break
        kept.add(index)
        left -= len(sentences[index]) + 1
    return " ".join(sentence for index, sentence in enumerate(sentences) if index in kept)


def first_half(text: str, _dice: random.Random) -> str:
    return text[: int(RATIO * len(text))]


def both_ends(text: str, _dice: random.Random) -> str:
    quarter = int(RATIO * len(text) / 2)
    return text[:quarter] + text[-quarter:]


WAYS: dict[str, Way] = {
    "compressed": ours,
    "random sentences": random_sentences,
    "first half": first_half,
    "both ends": both_ends,
}


class Tally:
    """Facts planted and facts left, by way, corpus and kind; and lengths."""

    def __init__(self) -> None:
        self.left: Counter[tuple[str, str, str]] = Counter()
        self.planted: Counter[tuple[str, str, str]] = Counter()
        self.chars: Counter[tuple[str, str]] = Counter()

    def add(self, corpus: str, text: str, facts: Sequence[tuple[str, str]]) -> None:
        for name, way in WAYS.items():
            kept = way(text, random.Random(SEED))
            self.chars[name, corpus] += len(kept)
            for kind, fact in facts:
                self.planted[name, corpus, kind] += 1
                self.left[name, corpus, kind] += survives(fact, kept)
        self.chars["", corpus] += len(text)

    def share(self, way: str, *, corpora: Sequence[str], kinds: Sequence[str]) -> float:
        keys = [(way, corpus, kind) for corpus in corpora for kind in kinds]
        return sum(self.left[key] for key in keys) / sum(self.planted[key] for key in keys)


def plant_and_cut(count: int) -> Tally:
    tally = Tally()
    for number, corpus in enumerate(CORPORA):
        dice = random.Random(SEED + number)
        for document in documents(corpus, chars=CHARS, count=count, seed=SEED):
            maker = Facts(dice, reporting=True)
            facts = [(kind, maker.make(kind, document)) for kind in KINDS]
            try:
                text = plant(document, [fact for _, fact in facts], dice)
            except ValueError:
                continue  # a table, a list of names: no sentences to plant between
            tally.add(corpus, text, facts)
    return tally


def report(tally: Tally) -> float:
    corpora = [*CORPORA]
    print(f"{'':24}" + "".join(f"{corpus:>17}" for corpus in [*corpora, "all"]))
    for kind in KINDS:
        shares = [tally.share("compressed", corpora=[it], kinds=[kind]) for it in corpora]
        shares.append(tally.share("compressed", corpora=corpora, kinds=[kind]))
        print(f"{kind:24}" + "".join(f"{share:17.3f}" for share in shares))
    counts = [tally.planted["compressed", it, KINDS[0]] for it in corpora]
    print(f"{'facts of a kind':24}" + "".join(f"{it:17}" for it in [*counts, sum(counts)]))
    kept = [tally.chars["compressed", it] / tally.chars["", it] for it in corpora]
    print(f"{'share of text kept':24}" + "".join(f"{it:17.3f}" for it in kept))
    kinds = [kind for kind in KINDS if kind != OWN]
    for way in WAYS:
        whole = sum(tally.chars["", it] for it in corpora)
        size = sum(tally.chars[way, it] for it in corpora) / whole
        facts = tally.share(way, corpora=corpora, kinds=kinds)
        own = tally.share(way, corpora=corpora, kinds=[OWN])
        print(f"{way:24} {size:.3f} of the text, {facts:.3f} of the facts, {own:.3f} in {OWN}")
    return tally.share("compressed", corpora=corpora, kinds=kinds)


def time_of_cutting() -> None:
    for size in (4_000, 20_000, 100_000):
        text = documents("python reference", chars=size, count=1, seed=SEED)[0]
        taken = []
        for _ in range(9):
            begun = time.process_time()
            compress({"prompt": text}, ratio=RATIO)
            taken.append(time.process_time() - begun)
        print(f"{len(text):7,} characters: {sorted(taken)[4] * 1e3:5.1f} ms of CPU")


async def time_saved() -> None:
    """Compare times to the first token, the compressor's own process included."""
    text = documents("python reference", chars=30_000, count=1, seed=SEED)[0]
    compressor = PromptCompressor(CompressionSettings())
    rates = ("--prefill-tokens-per-second", str(PREFILL_PER_SECOND), "--max-model-len", "60000")
    async with sim_workers(1, *rates) as (worker,), aiohttp.ClientSession() as http:
        taken: list[float] = []
        for ratio in (None, None, RATIO, RATIO):  # the second of two: nothing is started any more
            body = {"model": "sim", "prompt": f"{len(taken)} {text}", "max_tokens": 1}
            begun = time.perf_counter()
            if ratio is not None:
                body |= await compressor.fields(body, ratio) or {}
            async with http.post(worker.url + "/v1/completions", json=body) as response:
                assert response.status == 200, await response.text()
                await response.read()
            taken.append(time.perf_counter() - begun)
    await compressor.close()
    print(
        f"a prompt of {len(text):,} bytes at a simulated worker of {PREFILL_PER_SECOND:,} bytes a "
        f"second: {taken[1] * 1e3:.0f} ms whole, {taken[3] * 1e3:.0f} ms compressed"
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    share = report(plant_and_cut(count))
    time_of_cutting()
    asyncio.run(time_saved())
    print(f"ratio={share:.4f}")


if __name__ == "__main__":
    main()
