"""Which formats there are: `opening.open_log`, how they are told apart, how they are checked."""
