module ferry-test-pause

go 1.24.0
