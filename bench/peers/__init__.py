"""Other decoders beside this one, over the same binlog file: `python -m bench.peers`."""
