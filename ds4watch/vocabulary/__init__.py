"""What each engine and version calls things, and the ds4_* names they become. Pure."""
