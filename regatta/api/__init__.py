"""What a program calls: a cluster, runs on it, what they print, write and leave as records. Commands do the same."""
