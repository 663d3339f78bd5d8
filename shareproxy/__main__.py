"""Run the command line with `python -m shareproxy`."""

from shareproxy.cli.start import main

if __name__ == "__main__":
    main()
