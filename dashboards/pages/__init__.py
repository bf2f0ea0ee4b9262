"""What is on each dashboard."""
