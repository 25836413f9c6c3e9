"""Families of column types: from the bytes of values in row images to Arrow."""
