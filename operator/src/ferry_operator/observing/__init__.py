"""What the cluster looks like, as far as decisions need it: small values made from watch events."""
