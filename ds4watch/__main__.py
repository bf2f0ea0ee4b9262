"""`python -m ds4watch` is the same as `ds4watch`."""

from ds4watch.cli import main

if __name__ == "__main__":
    main()
