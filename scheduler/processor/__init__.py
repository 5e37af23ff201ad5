"""The DAG processor: turns DAG files into DAG versions."""
