"""What practice has taught about worker profiles: faults of profiles that load."""
