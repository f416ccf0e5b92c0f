"""What both programs share: a list of checks, a count, and a report."""

import sys
import traceback

CHECKS = []


def check(function):
    """Registers a check; its name is the sentence that fails."""
    CHECKS.append(function)
    return function


def raises(error, action):
    """Whether `action` fails with `error`."""
    try:
        action()
    except error:
        return True
    return False


def run(*arguments):
    """Runs each check with `arguments`, says what failed, and ends the program."""
    failed = 0
    for function in CHECKS:
        try:
            function(*arguments)
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}", file=sys.stderr)
            traceback.print_exc()
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
