"""Who may ask, and for how much: keys, roles, request limits. Pure."""
