"""Grafana dashboards, and the program that makes them."""
