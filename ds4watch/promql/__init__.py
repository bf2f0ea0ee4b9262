"""PromQL over a narrow storage port, with Prometheus 3 semantics."""
