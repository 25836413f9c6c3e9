"""The files of a structured log: which ones belong to it, what their starts tell, and passes over them."""
