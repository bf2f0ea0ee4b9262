"""What holds of the lints whatever a profile says."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.lints.arguments import read_arguments
from ds4watch.config.lints.vllm_arguments import ARGUMENTS
from tests.unit.config.lints.helpers import changed, lints_of, messages

LAYERS, HEADS, TOKENS = st.integers(1, 100), st.integers(1, 16), st.integers(16, 8192)
TEXTS = st.text(st.characters(codec="ascii", exclude_characters="\x00"), max_size=12)
TOKEN = st.sampled_from(sorted(ARGUMENTS)) | TEXTS | st.sampled_from(["1", "2", "0.9", "fp8", "{}"])


@given(layers=LAYERS, heads=HEADS, tokens=TOKENS, seqs=st.integers(1, 4096))
def test_the_way_to_mend_a_batch_is_the_largest_one_that_is_good(
    layers: int, heads: int, tokens: int, seqs: int
) -> None:
    def found(count: int) -> list[str]:
        geometry = f"{{layers: {layers}, kv_heads: {heads}, head_dim: 128, weights_mib: 5000}}"
        text = changed(geometry=geometry, max_num_seqs=str(count), expected_tokens=str(tokens))
        return [it.found.mend or "" for it in lints_of(text)]

    for mend in found(seqs):
        most = re.fullmatch(r"max_num_seqs at most (\d+)", mend)
        assert most or mend == "a larger GPU, or fewer bits"
        if most:
            assert int(most[1]) < seqs
            assert found(int(most[1])) == []
            assert found(int(most[1]) + 1) == [mend]


@given(st.lists(TOKEN, max_size=8))
def test_no_arguments_are_so_odd_that_the_lints_fail(tokens: list[str]) -> None:
    messages(changed(engine_args=json.dumps(tokens)))
    read = list(read_arguments(("engine_args",), tuple(tokens)))
    assert [it.path[1] for it in read] == sorted({it.path[1] for it in read}, key=int)
