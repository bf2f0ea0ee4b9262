from __future__ import annotations

from pathlib import Path

from ds4watch.config.reference import profile_reference, render_reference, settings_reference

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_committed_reference_is_what_the_settings_tree_says() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render_reference(), (
        "run: ds4watch config reference > docs/configuration.md"
    )


def test_every_setting_says_what_it_means() -> None:
    for row in (*settings_reference(), *profile_reference()):
        assert row.description, row.key
        assert row.type, row.key


def test_settings_are_named_with_their_place_and_unit() -> None:
    rows = {row.key: row for row in settings_reference()}
    assert rows["scrape.interval_seconds"].unit == "seconds"
    assert rows["fleet.workers[].count"].default == "`1`"
    assert rows["fleet.workers[].profile"].default == "required"
