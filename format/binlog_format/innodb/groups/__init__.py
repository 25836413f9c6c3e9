"""From commit records to event groups, with their events or without."""
