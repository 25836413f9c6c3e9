"""Archives of logs: their manifest, and the folders that readers of every format take for a server's directory."""
