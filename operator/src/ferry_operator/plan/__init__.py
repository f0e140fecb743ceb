"""From an InferenceService to the objects that serve it: pure functions of values, without I/O."""
