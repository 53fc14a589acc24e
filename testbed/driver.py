"""Drives an emulated network for `anabranch testbed`: one JSON line in, one JSON line out.

A request is {"id": n, "do": name, ...}; its answer {"id": n, "ok": true, ...} or {"id": n, "ok": false, "error": text}. Between them
come events: {"event": "sample" | "exit" | "link", ...}. Times are seconds of CLOCK_MONOTONIC.

When its input ends, or at SIGTERM, it takes down all it has made and ends. `driver.py FOLDER down` does that for a driver that
could not, `driver.py FOLDER machine` tells what is possible here.
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
# Tools of the switch and of tc live where an ordinary user's path may not lead.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"

from journal import Journal, Refused, down, end_all, start_time  # noqa: E402


class Stop(Exception):
    """Asked to end."""


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
        """One line; nobody listening any more is no reason to fail while cleaning up."""
        try:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
        except (BrokenPipeError, ValueError):
            if not self.is_detached:
                raise Stop from None

    def lines(self, timeout):
        """Whole lines of the input that came within `timeout` seconds."""
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
        """Until the input ends."""
        while True:
            now = time.monotonic()
            wait = min(max(self.timers[0][0] - now, 0.0), 0.05) if self.timers else 0.05
            for line in self.lines(wait):
                self.request(line)
            while self.timers and self.timers[0][0] <= time.monotonic():
                heapq.heappop(self.timers)[2]()
            self.look_after_programs()

    def at(self, when, action):
        """Calls `action` at a time."""
        self.count += 1
        heapq.heappush(self.timers, (when, self.count, action))

    def request(self, line):
        """One request, answered."""
        number = None
        try:
            message = json.loads(line)
            number = message["id"]
            method = getattr(self, "do_" + message["do"], None)
            if method is None:
                raise Refused(f"there is no request `{message['do']}`")
            answer = method(message) or {}
        except Refused as refusal:
            self.say(id=number, ok=False, error=str(refusal))
        except Stop:
            raise
        except Exception as error:  # Mininet raises plain ones. Whatever it was, the network can still be taken down.
            self.say(id=number, ok=False, error=f"{type(error).__name__}: {error}")
        else:
            self.say(id=number, ok=True, **answer)

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
        answer = self.network.start()
        return {**answer, "hosts": host_pids(self.network), "took_s": time.monotonic() - began}

    def do_rules(self, message):
        """Replaces the rules of switches: {switch: [flow, …]}."""
        self.network.ovs.rules(message["rules"])

    def do_controller(self, message):
        """Tells all switches whom to connect to."""
        switches = [switch["name"] for switch in self.network.plan["switches"]]
        self.network.ovs.controller(switches, message["target"], message.get("backoff_ms", 1000))

    def do_sample(self, message):
        """Samples counters every so many seconds from a time on; 0 ends it."""
        self.interval = message["interval_s"] or None
        if self.interval:
            self.at(message.get("from", time.monotonic()), self.sample)

    def do_counters(self, _):
        """Counters and queues now."""
        network = self.network
        network.ovs.check()
        return {
            "t": time.monotonic(), "ports": network.counters(), "queues": network.queues(), "hosts": network.host_counters(),
            "switch_cpu_s": network.ovs.cpu_s(),
        }

    def do_link(self, message):
        """Plugs a cable in or out, now or at a time."""
        def change():
            began = time.monotonic()
            self.network.set_link(message["link"], message["up"])
            self.say(event="link", link=message["link"], up=message["up"], t=began)

        if message.get("at") is None:
            change()
        else:
            self.at(message["at"], change)

    def do_spawn(self, message):
        """Starts a program in a host, or beside the switches, now or at a time; `exit` tells how it ended."""
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
            # `mnexec` becomes the program: its process is the program's.
            return {"pid": spawn()}
        self.at(message["at"], spawn)
        return None

    def do_kill(self, message):
        """Sends a signal to programs (`group`: and their children); to all where none is named."""
        number = message.get("signal", signal.SIGTERM)
        for name in message.get("programs") or list(self.programs):
            process = self.programs.get(name)
            if process is None or process.poll() is not None:
                continue
            if message.get("group"):
                # Each program began a session, and with it a group, of its own.
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)

    def do_detach(self, _):
        """From now on the end of the input is not the end of the network: `down` is."""
        self.is_detached = True

    def do_stop(self, _):
        """Takes the network down."""
        return self.clean()

    # --- what goes on

    def sample(self):
        """One sample, and the next one."""
        if self.interval is None or self.network is None:
            return
        now = time.monotonic()
        self.say(event="sample", t=now, ports=self.network.counters())
        self.at(now + self.interval, self.sample)

    def look_after_programs(self):
        """Tells which programs have ended."""
        for name in [name for name, process in self.programs.items() if process.poll() is not None]:
            process = self.programs.pop(name)
            self.say(event="exit", program=name, code=process.returncode, t=time.monotonic())

    def clean(self):
        """Undoes everything, whatever state it is in."""
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
    """Runs as asked; answers the exit code."""
    if what == "down":
        print(json.dumps(down(folder)))
        return 0
    if what == "machine":
        from network import machine

        print(json.dumps(machine()))
        return 0

    def stop(*_):
        raise Stop

    # Ctrl-C reaches the whole foreground group; our parent decides what it means.
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
