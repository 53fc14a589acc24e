"""The journal: changes of a testbed to this machine, recorded before they are made, and their undo.

The journal is a file of JSON lines in the folder of the testbed. It survives the process that wrote
it, so that another process can clean up after a crash. Only recorded objects are touched. Processes
are identified by number and start time, because the kernel reuses numbers.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time


class Refused(Exception):
    """A request cannot be executed; the text names the reason and a remedy."""


def start_time(pid):
    """Returns the start of a process in clock ticks since boot; None for zombies and if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The program name is in parentheses and may contain any character.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def read_sysctl(name):
    """Returns the value of a kernel setting."""
    with open("/proc/sys/" + name.replace(".", "/"), encoding="ascii") as file:
        return file.read().strip()


def write_sysctl(name, value):
    """Changes a kernel setting."""
    with open("/proc/sys/" + name.replace(".", "/"), "w", encoding="ascii") as file:
        file.write(value)


class Journal:
    """The journal of the testbed; a machine has at most one testbed at a time."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.path.join(folder, "journal")
        self.lock = None
        self.file = None

    def open(self):
        """Creates the journal; refuses while another testbed is up or has left objects."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self.lock = open(os.path.join(self.folder, "lock"), "w", encoding="ascii")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("another testbed is up on this machine; remove it with `anabranch testbed down`") from None
        if os.path.exists(self.path):
            raise Refused("an earlier testbed was not cleaned up; run `anabranch testbed down` first")
        self.file = open(self.path, "a", encoding="utf-8")
        self.add(driver=os.getpid(), since=start_time(os.getpid()))

    def add(self, **entry):
        """Appends an entry; it is in the file before this returns."""
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()

    def process(self, pid):
        """Records a process of the testbed."""
        since = start_time(pid)
        if since is not None:
            self.add(pid=pid, since=since)

    def sysctl(self, name, value):
        """Raises a kernel setting; returns whether it was lower."""
        was = read_sysctl(name)
        if int(was) >= int(value):
            return False
        self.add(sysctl=name, was=was, set=value)
        write_sysctl(name, value)
        return True

    def entries(self):
        """Returns the entries; an incomplete line is skipped."""
        try:
            with open(self.path, encoding="utf-8") as file:
                lines = file.readlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return entries

    def restore_sysctls(self):
        """Restores kernel settings that still have the value of the testbed."""
        for entry in reversed(self.entries()):
            if "sysctl" in entry and read_sysctl(entry["sysctl"]) == entry["set"]:
                write_sysctl(entry["sysctl"], entry["was"])

    def undo(self):
        """Ends processes, deletes interfaces, restores settings and deletes the journal.

        Returns the number of objects by kind.
        """
        found = {"processes": 0, "interfaces": 0}
        entries = self.entries()
        recorded = [entry for entry in entries if "pid" in entry and entry["pid"] != os.getpid()]
        found["processes"] = end_all([(entry["pid"], entry["since"]) for entry in reversed(recorded)])
        left = [entry["interface"] for entry in entries if "interface" in entry and is_interface(entry["interface"])]
        for name in left:
            # Deleting one end of a pair deletes the other end too.
            subprocess.run(["ip", "link", "del", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        found["interfaces"] = len(left)
        self.restore_sysctls()
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else []:
            path = os.path.join(self.folder, name)
            if name == "lock":
                continue
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.remove(path)
        return found


def is_interface(name):
    """Returns whether this namespace has an interface of that name."""
    return os.path.exists("/sys/class/net/" + name)


def end_all(processes, patience_s=5.0):
    """Terminates processes, and kills those that remain; returns the number of processes."""
    def alive(known):
        return [(pid, since) for pid, since in known if start_time(pid) == since]

    left = alive(processes)
    count = len(left)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for pid, _ in left:
            try:
                # A stopped process and an interactive shell react to SIGHUP but not to SIGTERM.
                os.kill(pid, signal.SIGHUP)
                os.kill(pid, sign)
            except OSError:
                pass
        until = time.monotonic() + patience_s
        while left and time.monotonic() < until:
            reap()
            left = alive(left)
            time.sleep(0.02)
        if not left:
            break
    return count


def reap():
    """Collects ended children, so that they do not count as running."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        pass


def down(folder):
    """Removes a testbed that is up or has crashed; returns the number of objects by kind."""
    journal = Journal(folder)
    was_up = False
    for entry in journal.entries():
        if "driver" in entry and start_time(entry["driver"]) == entry["since"]:
            was_up = True
            os.kill(entry["driver"], signal.SIGTERM)
            until = time.monotonic() + 60
            while start_time(entry["driver"]) == entry["since"] and time.monotonic() < until:
                time.sleep(0.05)
            end_all([(entry["driver"], entry["since"])])
    found = journal.undo()
    found["was_up"] = was_up
    return found
