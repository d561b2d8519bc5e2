"""``python -m wfrun`` is the command ``wfrun``, for a Python whose scripts are not on the PATH."""

from wfrun.runners.cli.main import main

if __name__ == "__main__":
    main()
