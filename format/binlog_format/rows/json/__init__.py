"""MySQL's binary JSON: documents, changes to them, and the text that the server prints."""
