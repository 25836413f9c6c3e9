"""Keys and values of messages as JSON: templates, filled in by kernels."""
