"""Worker processes and their backends, the one worker client, the board that gateways read."""
