"""Events as lines of text, byte for byte as the library's own reader prints them."""
