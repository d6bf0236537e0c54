"""MPI, by OpenMPI and mpi4py."""
