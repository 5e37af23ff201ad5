"""What the DAGs of the flights do; the files beside this folder say in which order and where."""
