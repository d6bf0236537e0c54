"""Networks of the literature in plain torch; their modules have the names that files of published weights use."""
