"""What records say, for people: tables, charts, one page of HTML, the terminal."""
