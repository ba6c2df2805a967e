"""`python -m brodmann` is the `brodmann` command."""

from brodmann.cli import main

if __name__ == "__main__":
    main()
