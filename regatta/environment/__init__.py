"""What a run has beside its program: packages of the project that the nodes' environment lacks, and variables."""
