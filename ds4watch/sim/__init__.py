"""The simulated worker: vLLM 0.32's HTTP API and metrics over a model of its scheduler."""
