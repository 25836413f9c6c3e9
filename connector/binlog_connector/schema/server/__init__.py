"""What a server decides and no statement states: how it compares names, what is left of a statement that failed."""
