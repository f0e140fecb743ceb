"""Request bodies (pydantic: validation with messages) and answers (msgspec: cheap to encode)."""
