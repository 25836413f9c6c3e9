"""From event groups as they are stored to what was committed."""
