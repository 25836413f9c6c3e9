"""Looking into `.ibb` files whatever state they are in: page by page, chunk by chunk, past all damage."""
