"""The logs that are measured on, made once and kept."""
