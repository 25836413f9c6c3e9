"""Pages of `.ibb` files: read, verified, and joined to windows and runs."""
