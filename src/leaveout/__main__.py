"""``python -m leaveout``: the command line."""

from leaveout.verifier.cli import main

if __name__ == "__main__":
    main()
