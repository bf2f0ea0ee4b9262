"""What a request is made into, and what is read from and kept out of its answer. Pure."""
