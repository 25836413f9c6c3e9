"""Events that record the GTID of a group, or those of the files before."""
