"""The tasks behind `fab` and `regatta`."""
