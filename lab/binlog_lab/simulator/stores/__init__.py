"""The part of the simulator for object stores: a bucket whose requests are refused, late, or without an answer."""
