"""Who is told: one file a channel, fed from the outbox, at least once."""
