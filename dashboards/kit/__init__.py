"""What dashboards are made of."""
