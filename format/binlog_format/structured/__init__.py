"""Files of the C++ logging library "Binlog": entries, types, values, text, a view and a writer."""
