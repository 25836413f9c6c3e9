"""Where the files of tables are: folders and object stores, behind one `Store`."""
