"""OpenLineage events of jobs' runs: sources and targets of rows, and the versions that contain them."""
