"""Run the command line with ``python -m scrubjay``."""

from scrubjay.cli import main

if __name__ == "__main__":
    main()
