"""What a controller asks of nodes: a module for each subject, of which a request loads one."""
