"""The `anabranch` command."""

import sys
import sysconfig
from pathlib import Path

from . import _native


def main() -> int:
    """Run the command with the arguments of this process, and return its exit code."""
    # The command starts itself for controllers and agents, so it needs a file that can be executed.
    program = Path(sys.argv[0]).resolve()
    if program.name != "anabranch":
        program = Path(sysconfig.get_path("scripts")) / "anabranch"
    return _native.main(["anabranch", *sys.argv[1:]], program, Path(sys.executable))


if __name__ == "__main__":
    sys.exit(main())
