"""Open vSwitch for one testbed, with a separate database, sockets and processes."""

import os
import subprocess
import time

from journal import Refused

SCHEMAS = ("/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema")

# The userspace datapath reads each port through a packet socket and sends for all ports through one.
# With the kernel's defaults (208 KiB), about 90 packets in the queues of the whole network are enough
# for losses that no counter shows.
BUFFERS = (("net.core.rmem_default", str(4 << 20)), ("net.core.wmem_default", str(64 << 20)))



def threads(process):
    """Returns the threads of a process."""
    return [int(thread) for thread in os.listdir(f"/proc/{process}/task")]


def run(*command, text=None):
    """Runs a command; returns its output, or refuses with its error text."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip()
        raise Refused(f"`{' '.join(command)[:200]}` exited with {done.returncode}: {message[:2000]}")
    return done.stdout


def version():
    """Returns the version of Open vSwitch; None if it is not installed."""
    try:
        return run("ovs-vswitchd", "--version").splitlines()[0].split()[-1]
    except (OSError, Refused, IndexError):
        return None


def has_kernel_datapath():
    """Returns whether the kernel module is loaded or can be loaded."""
    if os.path.isdir("/sys/module/openvswitch"):
        return True
    try:
        done = subprocess.run(["modprobe", "openvswitch"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0 and os.path.isdir("/sys/module/openvswitch")


class OpenVSwitch:
    """A database server and a switch daemon, and the commands that control them."""

    def __init__(self, journal):
        self.journal = journal
        self.folder = os.path.join(journal.folder, "ovs")
        self.processes = []

    def start(self):
        """Starts both processes; commands of this process and its children find them by OVS_RUNDIR."""
        schema = next((path for path in SCHEMAS if os.path.exists(path)), None)
        if schema is None:
            raise Refused("Open vSwitch is not installed: vswitch.ovsschema is missing; install openvswitch-switch")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"):
            os.environ[name] = self.folder
        database = os.path.join(self.folder, "conf.db")
        run("ovsdb-tool", "create", database, schema)
        socket = os.path.join(self.folder, "db.sock")
        self.spawn("ovsdb-server", database, f"--remote=punix:{socket}")
        self.wait_for(socket)
        run("ovs-vsctl", "--no-wait", "init")
        # The daemon creates a socket for every port; each reads these settings once, when it is created.
        for name, value in BUFFERS:
            self.journal.sysctl(name, value)
        self.spawn("ovs-vswitchd", f"unix:{socket}")
        run("ovs-vsctl", "--timeout=30", "show")

    def make_room(self):
        """Gives the forwarding thread a dedicated processor, if there are several, and a high priority.

        All switches of the userspace datapath share that thread. Any other work on its processor
        would be measured as loss and unfairness: a late thread finds many packets at each port, and
        the port it reads first fills the free part of a queue. Real-time scheduling does not help:
        the kernel stops such a thread for 50 ms after 950 ms, and the daemon's other threads, which
        apply changed rules, would wait for it.

        Must be called after the daemon has created its threads; later threads would share the
        processor. Returns the processors for other processes, which the measuring process must use,
        and whether the thread has a dedicated one. Only processes of the testbed are pinned: the
        affinity of another process would stay changed, and an adopting process (init) would pass
        it on to everything it starts.
        """
        forwarder = self.processes[-1][1].pid
        os.setpriority(os.PRIO_PROCESS, forwarder, -20)
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2:
            return processors, False
        others = processors[:-1]
        for process in (os.getpid(), *(process.pid for _, process in self.processes)):
            for thread in threads(process):
                os.sched_setaffinity(thread, others)
        os.sched_setaffinity(forwarder, processors[-1:])
        return others, True

    def spawn(self, program, *arguments):
        """Starts a daemon as a child process."""
        log = os.path.join(self.folder, program + ".log")
        options = [f"--pidfile={self.folder}/{program}.pid", f"--log-file={log}", "-vconsole:off", "--no-chdir"]
        with open(os.path.join(self.folder, program + ".out"), "w", encoding="utf-8") as out:
            process = subprocess.Popen(
                [program, *arguments, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        self.journal.process(process.pid)
        self.processes.append((program, process))

    def wait_for(self, path):
        """Waits until a socket exists."""
        until = time.monotonic() + 20
        while not os.path.exists(path):
            self.check()
            if time.monotonic() > until:
                raise Refused("ovsdb-server created no socket within 20 s")
            time.sleep(0.02)

    def check(self):
        """Refuses if a daemon has ended."""
        for program, process in self.processes:
            if process.poll() is not None:
                with open(os.path.join(self.folder, program + ".out"), encoding="utf-8", errors="replace") as file:
                    raise Refused(f"{program} exited with {process.returncode}: {file.read()[-2000:]}")

    def cpu_s(self):
        """Returns the processor time of the switch daemon, seconds."""
        pid = self.processes[-1][1].pid
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def verify(self, ports):
        """Refuses unless every interface is a port with its planned number."""
        listed = run("ovs-vsctl", "--timeout=60", "--format=csv", "--no-headings", "--columns=name,ofport,error", "list", "Interface")
        found = {}
        for line in listed.splitlines():
            name, number, error = line.replace('"', "").split(",", 2)
            found[name] = (number, error)
        for name, number in ports.items():
            if found.get(name, ("", ""))[0] != str(number):
                raise Refused(f"Open vSwitch did not accept {name} as port {number}: {found.get(name)}")

    def rules(self, rules):
        """Replaces all rules and groups of the named switches, by OpenFlow 1.3."""
        for switch, flows in rules.items():
            # `replace-flows` would keep the counters of unchanged rules.
            run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", switch)
            if flows:
                run("ovs-ofctl", "-O", "OpenFlow13", "add-flows", switch, "-", text="\n".join(flows) + "\n")

    def send(self, switch, port, frame):
        """Sends a frame, given in hexadecimal digits, out of a port."""
        run("ovs-ofctl", "-O", "OpenFlow13", "packet-out", switch, f"in_port=CONTROLLER packet={frame} actions=output:{port}")

    def controller(self, switches, target, backoff_ms):
        """Sets the controller address of switches; None removes it."""
        words = []
        for switch in switches:
            words += ["--"] if words else []
            if target is None:
                words += ["del-controller", switch]
            else:
                words += ["set-controller", switch, target, "--", "set", "controller", switch]
                words += [f"max_backoff={backoff_ms}", "inactivity_probe=5000", "connection_mode=out-of-band"]
        run("ovs-vsctl", "--timeout=60", *words)

    def stop(self):
        """Ends both processes, the switch daemon first."""
        for _, process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []
