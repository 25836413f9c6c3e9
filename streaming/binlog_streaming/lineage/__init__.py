"""What runs of jobs tell OpenLineage: where rows come from, where they go, and in which version they are there."""
