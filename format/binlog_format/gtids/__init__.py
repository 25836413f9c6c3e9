"""Global transaction ids of both vendors: single ones, positions, sets, and where they are in a log."""
