"""Arguments of events: typed Arrow columns of one source, JSON of any."""
