"""ds4watch's own metrics, in Prometheus' text format, and its log."""
