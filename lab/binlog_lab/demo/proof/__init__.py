"""Proof that tables equal those of their source."""
