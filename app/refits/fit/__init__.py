"""What a refit computes, and the process that computes it."""
