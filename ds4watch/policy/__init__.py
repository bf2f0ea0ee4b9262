"""What an alert leads to: matching, the degradation ladder, the guards."""
