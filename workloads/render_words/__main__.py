"""``python -m workloads.render_words``: see docs/reference/workloads/films.md."""

from workloads.render_words.work import main

if __name__ == "__main__":
    main()
