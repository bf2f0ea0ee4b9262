"""Watching targets: the fetch loop, the exposition reader, the GPUs."""
