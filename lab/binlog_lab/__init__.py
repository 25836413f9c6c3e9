"""The laboratory: what makes logs and faults, for the demo, for tests and for benchmarks.

A model of how a server writes `.ibb` files, encoders of events, `repack` and `simulate`, the demo, servers of tests.
The product does not import it; its commands are entry points of the group `binlog_stream.commands`.
"""
