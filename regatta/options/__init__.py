"""The options of runs, each declared once: flags, keys of files, arguments and what is kept are made from it."""
