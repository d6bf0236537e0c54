"""Reports of records, for people: tables, charts, one page of HTML, the terminal."""
