"""Processes of one host."""
