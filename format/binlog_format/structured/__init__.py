"""Files of the C++ logging library "Binlog": entries, types, values, text, and a writer."""
