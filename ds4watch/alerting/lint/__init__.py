"""What is wrong with rules that load: they would be silent, or wake people for nothing."""
