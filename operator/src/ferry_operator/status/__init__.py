"""What the operator says about an InferenceService: pure functions of what it has observed."""
