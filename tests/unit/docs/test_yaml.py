"""Every YAML block of a document is read by what would read the file."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.docs.documents import Block, markdown_files
from tests.unit.docs.yaml_kinds import READERS, as_parameters, kind_of, yaml_blocks

BLOCKS = [block for path in markdown_files() for block in yaml_blocks(path)]


@pytest.mark.parametrize("block", as_parameters(BLOCKS))
def test_a_block_loads_as_what_it_says_it_is(block: Block) -> None:
    assert READERS[kind_of(block)](block.text) is not None


def test_every_kind_of_file_has_an_example() -> None:
    assert not READERS.keys() - Counter(map(kind_of, BLOCKS)).keys()
