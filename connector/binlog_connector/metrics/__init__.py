"""How far behind its log a consumer is, and how fast: computed in one place, exported for Prometheus."""
