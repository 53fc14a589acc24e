"""The process that the command starts for `--on`: it reads a task in JSON and runs it on a cluster."""

import json
import sys
from pathlib import Path

from . import AnabranchError, __version__, cluster
from .experiment import Bar


def main() -> int:
    """Run the task of standard input. Return the exit code: 2 after an error that was printed, 130 after Ctrl-C."""
    task = json.load(sys.stdin)
    if task["version"] != __version__:
        print(f"error: the Python package is version {__version__}, the command {task['version']}", file=sys.stderr)
        return 2
    bar = None if task["quiet"] or not sys.stderr.isatty() else Bar()
    try:
        experiment = cluster.read(task["text"], task["name"], task["inputs"])
        cluster.run(experiment, task["on"], Path(task["out"]), task["flows"], bar)
    except KeyboardInterrupt:
        return 130
    except (AnabranchError, ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        if bar is not None:
            bar.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
