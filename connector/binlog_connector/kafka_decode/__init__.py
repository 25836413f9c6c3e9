"""Messages that were published, back into rows: keys and values as bytes in, Arrow columns and places out."""
