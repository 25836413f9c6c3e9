"""A MariaDB server for the demo and the tests."""
