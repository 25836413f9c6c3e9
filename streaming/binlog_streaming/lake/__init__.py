"""Tables in the lake, whatever their format: their content, commits, and the stores of their files."""
