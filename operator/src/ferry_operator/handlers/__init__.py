"""kopf's side: what is watched, and where the news goes. No decisions, and no writes."""
