"""Alerts and recorded series: what they look at, when they fire, and what to do then."""
