"""ds4watch: the cost and health autopilot of vLLM fleets."""

__version__ = "0.1.0"
