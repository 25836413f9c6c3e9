"""Type tags of arguments: how they are written, what they mean, tables of them."""
