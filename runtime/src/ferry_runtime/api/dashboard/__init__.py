"""The dashboard: its page, its numbers, its load test."""
