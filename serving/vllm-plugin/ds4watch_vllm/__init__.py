"""ds4watch's metrics on vLLM's own page: a stat logger that vLLM finds by its entry point."""
