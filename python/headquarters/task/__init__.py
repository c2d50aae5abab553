"""Tasks of jobs."""
