"""The requests of a controller to nodes: a module for each subject, of which a request loads one."""
