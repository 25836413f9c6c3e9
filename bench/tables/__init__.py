"""The main job, and a target by itself."""
