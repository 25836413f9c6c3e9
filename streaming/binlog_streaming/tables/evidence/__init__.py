"""Evidence from changes about their targets, and contradictions in targets."""
