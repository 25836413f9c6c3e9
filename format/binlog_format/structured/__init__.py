"""Files of the C++ logging library "Binlog": entries, values, text, and a writer."""
