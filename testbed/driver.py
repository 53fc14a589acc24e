"""Drives an emulated network for `anabranch testbed`: one JSON line in, one JSON line out.

A request is {"id": n, "do": name, ...}; its reply is {"id": n, "ok": true, ...} or
{"id": n, "ok": false, "error": text}. Events may come between them:
{"event": "sample" | "exit" | "link", ...}. Times are seconds of CLOCK_MONOTONIC.

When the input ends, or at SIGTERM, the driver removes everything it has created and ends.
`driver.py FOLDER down` does that for a crashed driver. `driver.py FOLDER machine` prints the
capabilities of this machine.
"""

import heapq
import json
import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# Open vSwitch and tc install tools in folders that a user's path may lack.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"

from journal import Journal, Refused, down, end_all, start_time  # noqa: E402


class Stop(Exception):
    """The driver must end."""


class Driver:
    """Requests, timers and programs, in one thread."""

    def __init__(self, folder):
        self.journal = Journal(folder)
        self.network = None
        self.timers = []
        self.count = 0
        self.programs = {}
        self.interval = None
        self.is_detached = False
        self.buffer = b""

    # --- lines

    def say(self, **message):
        """Writes one line. While cleaning up, a closed output is not an error."""
        try:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, ValueError):
            if not self.is_detached:
                raise Stop from None

    def lines(self, timeout):
        """Returns the complete input lines that arrive within `timeout` seconds."""
        if self.is_detached:
            time.sleep(timeout)
            return []
        if not select.select([0], [], [], timeout)[0]:
            return []
        data = os.read(0, 1 << 16)
        if not data:
            raise Stop
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return [line for line in lines if line.strip()]

    # --- the loop

    def loop(self):
        """Handles requests until the input ends."""
        while True:
            now = time.monotonic()
            wait = min(max(self.timers[0][0] - now, 0.0), 0.05) if self.timers else 0.05
            for line in self.lines(wait):
                self.request(line)
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()
            self.look_after_programs()

    def at(self, when, action):
        """Schedules `action`."""
        self.count += 1
        heapq.heappush(self.timers, (when, self.count, action))

    def request(self, line):
        """Handles one request and writes its reply."""
        number = None
        try:
            message = json.loads(line)
            number = message["id"]
            method = getattr(self, "do_" + message["do"], None)
            if method is None:
                raise Refused(f"unknown request `{message['do']}`")
            reply = method(message) or {}
        except Refused as refusal:
            self.say(id=number, ok=False, error=str(refusal))
        except Stop:
            raise
        except Exception as error:  # Mininet raises plain exceptions; `down` still works.
            self.say(id=number, ok=False, error=f"{type(error).__name__}: {error}")
        else:
            self.say(id=number, ok=True, **reply)

    # --- requests

    def do_start(self, message):
        """Builds the network of a plan."""
        if os.geteuid() != 0:
            raise Refused("namespaces and bridges need root")
        from network import Network, host_pids

        if self.network is not None:
            raise Refused("a network is up already")
        began = time.monotonic()
        self.journal.open()
        self.network = Network(message["plan"], self.journal)
        built = self.network.start()
        return {**built, "hosts": host_pids(self.network), "took_s": time.monotonic() - began}

    def do_rules(self, message):
        """Replaces the rules of switches: {switch: [flow, …]}."""
        self.network.ovs.rules(message["rules"])

    def do_controller(self, message):
        """Sets the controller address of all switches."""
        # The preflight check has made hosts learn each other's Ethernet addresses.
        self.network.forget_neighbours()
        switches = [switch["name"] for switch in self.network.plan["switches"]]
        self.network.ovs.controller(switches, message["target"], message.get("backoff_ms", 1000))

    def do_sample(self, message):
        """Samples counters at an interval from a given time; interval 0 stops sampling."""
        self.interval = message["interval_s"] or None
        if self.interval:
            self.at(message.get("from", time.monotonic()), self.sample)

    def do_counters(self, _):
        """Returns the current counters and queues."""
        network = self.network
        network.ovs.check()
        return {
            "t": time.monotonic(), "ports": network.counters(), "queues": network.queues(), "hosts": network.host_counters(),
            "switch_cpu_s": network.ovs.cpu_s(),
        }

    def do_link(self, message):
        """Connects or disconnects a cable, now or at a given time."""
        def change():
            began = time.monotonic()
            self.network.set_link(message["link"], message["up"])
            self.say(event="link", link=message["link"], up=message["up"], t=began)

        if message.get("at") is None:
            change()
        else:
            self.at(message["at"], change)

    def do_spawn(self, message):
        """Starts a program in a host or next to the switches, now or at a given time.

        The event `exit` reports its end.
        """
        def spawn():
            inside = self.network.inside(message.get("host"))
            with open(message["log"], "wb") as log:
                process = subprocess.Popen(
                    [*inside, *message["argv"]], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    start_new_session=True, cwd=message.get("cwd"),
                )
            self.journal.process(process.pid)
            self.programs[message["program"]] = process
            return process.pid

        if message.get("at") is None:
            # `mnexec` executes the program in the same process.
            return {"pid": spawn()}
        self.at(message["at"], spawn)
        return None

    def do_kill(self, message):
        """Sends a signal to the named programs, or to all. `group` includes their children."""
        number = message.get("signal", signal.SIGTERM)
        for name in message.get("programs") or list(self.programs):
            process = self.programs.get(name)
            if process is None or process.poll() is not None:
                continue
            if message.get("group"):
                # Each program leads a session, and with it a process group.
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)

    def do_detach(self, _):
        """Keeps the network up after the input ends, until `down` removes it."""
        self.is_detached = True

    def do_stop(self, _):
        """Removes the network."""
        return self.clean()

    # --- periodic work

    def sample(self):
        """Sends a sample and schedules the next one."""
        if self.interval is None or self.network is None:
            return
        now = time.monotonic()
        self.say(event="sample", t=now, ports=self.network.counters())
        self.at(now + self.interval, self.sample)

    def look_after_programs(self):
        """Sends an event for each program that has ended."""
        for name in [name for name, process in self.programs.items() if process.poll() is not None]:
            process = self.programs.pop(name)
            self.say(event="exit", program=name, code=process.returncode, t=time.monotonic())

    def clean(self):
        """Removes everything, in any state of the network."""
        programs = [(process.pid, start_time(process.pid)) for process in self.programs.values()]
        end_all([(pid, since) for pid, since in programs if since is not None])
        self.programs = {}
        network, self.network = self.network, None
        if self.journal.file is None:
            return {}
        if network is not None:
            network.stop()
        found = self.journal.undo()
        self.journal.file.close()
        self.journal.file = None
        self.journal.lock.close()
        return found


def main(folder, what):
    """Runs the driver or one of its commands; returns the exit code."""
    if what == "down":
        print(json.dumps(down(folder)))
        return 0
    if what == "machine":
        from network import machine

        print(json.dumps(machine()))
        return 0

    def stop(*_):
        raise Stop

    # Ctrl-C reaches the whole foreground group; the parent process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    driver = Driver(folder)
    try:
        driver.loop()
    except Stop:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        driver.clean()
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: driver.py FOLDER [down|machine]")
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "drive"))
