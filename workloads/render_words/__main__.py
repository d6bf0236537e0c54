"""``python -m workloads.render_words``: see docs/workloads.md."""

from workloads.render_words.work import main

if __name__ == "__main__":
    main()
