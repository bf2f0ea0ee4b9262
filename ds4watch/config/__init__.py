"""The typed settings tree, its loader, and errors with file and line."""
