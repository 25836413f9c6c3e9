"""Tables in the lake, whatever their format: what is in them, and how one commit changes it."""
