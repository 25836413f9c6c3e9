"""What changes prove of the targets that they come into, and what targets contradict."""
