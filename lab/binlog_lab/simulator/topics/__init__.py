"""The part of the simulator for jobs that publish: a broker of Kafka in memory, its clients, and the verdict."""
