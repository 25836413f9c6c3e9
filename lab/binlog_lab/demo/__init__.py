"""The demo: a live log, the main job on it, a comparison row by row; `run.run_demo` is `binlog-stream demo`."""
