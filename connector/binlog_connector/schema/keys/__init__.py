"""Keys of tables, as statements make and leave them."""
