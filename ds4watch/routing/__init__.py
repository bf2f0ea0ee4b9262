"""Which worker answers, what follows a failure, who is left out for a while. Pure."""
