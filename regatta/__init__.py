"""The controller's library: provisioning, sync, runs, records and their report. It runs where a person types."""
