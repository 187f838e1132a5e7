"""The command line as `python -m toposcope`: the same as `toposcope`, where no script is on the path."""

from toposcope.cli.main import main

if __name__ == "__main__":
    main()
