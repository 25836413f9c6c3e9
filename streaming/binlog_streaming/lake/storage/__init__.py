"""Storage of the files of tables: folders and object stores, behind one `Store`."""
