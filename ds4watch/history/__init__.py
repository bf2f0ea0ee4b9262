"""History: what was scraped, what was decided, what was done. SQLite files, no rule logic."""
