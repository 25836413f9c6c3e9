"""Commands that tell how jobs are, and what is wrong on a machine."""
