"""MariaDB 12.3's InnoDB-based binlog: `.ibb` files of pages, chunks and records."""
