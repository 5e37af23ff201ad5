"""What DAG authors import."""
