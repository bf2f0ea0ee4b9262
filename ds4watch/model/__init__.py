"""The nouns of ds4watch: frozen values, no clock, no I/O, standard library and numpy only."""
