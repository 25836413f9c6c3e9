"""The page of a running job: one document, its data as server-sent events, nothing from elsewhere."""
