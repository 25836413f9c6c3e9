"""A live log over time, without Spark: what is there, what has been consumed, where reading goes on."""
