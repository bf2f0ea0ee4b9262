"""The admin API and status page. A command is a row and a wake-up, never a direct call."""
