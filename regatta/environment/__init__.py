"""What a run has besides its program: packages of the project that the nodes' environment lacks, and variables."""
