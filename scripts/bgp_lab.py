"""The network of check-bgp: namespaces, Open vSwitch, FRR routers, the daemon, load and a BGP speaker."""

import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "testbed"))

from journal import Journal  # noqa: E402
from openvswitch import OpenVSwitch  # noqa: E402

FRR = "/usr/lib/frr"
PREFIX = "abgp-"
NAMESPACES = ["c", "r", "p1", "p2", "net"]
HTTP = "127.0.0.1:18080"
OPENFLOW = "127.0.0.1:16653"
TIMERS = "timers 1 3"
# Port of the switch by namespace.
PORTS = {"c": 1, "r": 2, "p1": 3, "p2": 4}

CONTROLLER = """
listen = "127.0.0.1:16653"
[http]
listen = "127.0.0.1:18080"
[edge]
dpid = "00000000000000e1"
gateway = "10.0.0.254"
listen = "10.9.9.1:11019"
routers = ["10.9.9.2"]
[[uplink]]
name = "a"
port = 3
peer = "10.1.1.2"
local = "10.1.1.1"
rate = "10Mbps"
[[uplink]]
name = "b"
port = 4
peer = "10.1.2.2"
local = "10.1.2.1"
rate = "10Mbps"
"""

COMMON = """frr defaults traditional
hostname {name}
log file {folder}/frr.log
"""

ROUTER = """router bgp 65000
 bgp router-id 10.1.1.1
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.1.1.2 remote-as 65001
 neighbor 10.1.1.2 timers 1 3
 neighbor 10.1.2.2 remote-as 65002
 neighbor 10.1.2.2 timers 1 3
 address-family ipv4 unicast
  network 10.0.0.0/24
 exit-address-family
 bmp targets controller
  bmp monitor ipv4 unicast post-policy
  bmp connect 10.9.9.1 port 11019 min-retry 100 max-retry 1000
"""

PEER = """router bgp 6500{n}
 bgp router-id 10.1.{n}.2
 no bgp ebgp-requires-policy
 neighbor 10.1.{n}.1 remote-as 65000
 neighbor 10.1.{n}.1 timers 1 3
 neighbor 10.2.{n}.2 remote-as 65100
 neighbor 10.2.{n}.2 timers 1 3
"""


def internet(prefixes):
    networks = "\n".join(f"  network {prefix}" for prefix in prefixes)
    return f"""router bgp 65100
 bgp router-id 10.2.1.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.2.1.1 remote-as 65001
 neighbor 10.2.1.1 timers 1 3
 neighbor 10.2.2.1 remote-as 65002
 neighbor 10.2.2.1 timers 1 3
 address-family ipv4 unicast
{networks}
 exit-address-family
"""


def prefix_of(number):
    return f"20.{number // 256}.{number % 256}.0/24"


def sh(command):
    done = subprocess.run("set -e; " + command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"check-bgp: `{command}` exited with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Lab:
    def __init__(self, program, folder, prefixes):
        self.program, self.folder, self.count = program, folder, prefixes
        self.journal = Journal(str(folder / "journal"))
        self.switch = OpenVSwitch(self.journal)
        self.processes = []
        self.daemon = None
        self.bgpd = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # A bridge leaves its interface behind if the switch is killed.
        subprocess.run(["ovs-vsctl", "--timeout=5", "del-br", PREFIX + "br"], capture_output=True, check=False)
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.switch.stop()
        if self.journal.file is not None:
            self.journal.undo()
        # The kernel deletes the links of a namespace later: the next run would find them.
        for name in ["m", *PORTS]:
            subprocess.run(["ip", "link", "del", PREFIX + name], capture_output=True, check=False)
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "del", PREFIX + name], capture_output=True, check=False)

    def spawn(self, command, log, **options):
        with open(self.folder / log, "a", encoding="utf-8") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=options.pop("stdout", out), stderr=out, **options)
        self.processes.append(process)
        return process

    def wait_for(self, process, path, log):
        """Waits until a process has created a file."""
        until = time.monotonic() + 20
        while not path.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"check-bgp: {path} was not created: " + (self.folder / log).read_text()[-1000:])
            time.sleep(0.05)

    def within(self, name, command):
        return ["ip", "netns", "exec", PREFIX + name, *command]

    def start(self):
        for name in NAMESPACES:
            sh(f"ip netns add {PREFIX}{name}; ip -n {PREFIX}{name} link set lo up")
        self.start_switch()
        for name, addresses in [("c", ["10.0.0.1/24"]), ("r", ["10.1.1.1/24", "10.1.2.1/24"]), ("p1", ["10.1.1.2/24"]),
                                ("p2", ["10.1.2.2/24"])]:
            self.connect(name, addresses)
        sh(f"ip -n {PREFIX}c route add default via 10.0.0.254")
        # The router and the controller; the peers and the network behind them.
        sh(f"ip link add {PREFIX}m type veth peer name mgmt netns {PREFIX}r; ip addr add 10.9.9.1/24 dev {PREFIX}m; "
           f"ip link set {PREFIX}m up; ip -n {PREFIX}r addr add 10.9.9.2/24 dev mgmt; ip -n {PREFIX}r link set mgmt up")
        for n in (1, 2):
            sh(f"ip -n {PREFIX}p{n} link add out type veth peer name in{n} netns {PREFIX}net; "
               f"ip -n {PREFIX}p{n} addr add 10.2.{n}.1/24 dev out; ip -n {PREFIX}p{n} link set out up; "
               f"ip -n {PREFIX}net addr add 10.2.{n}.2/24 dev in{n}; ip -n {PREFIX}net link set in{n} up; "
               f"ip netns exec {PREFIX}p{n} sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0")
        sh(f"ip -n {PREFIX}net route add local 20.0.0.0/8 dev lo; "
           f"ip netns exec {PREFIX}net sysctl -qw net.ipv4.conf.all.rp_filter=0")
        (self.folder / "edge.toml").write_text(CONTROLLER)
        self.start_daemon()
        script = str(pathlib.Path(__file__).resolve())
        self.spawn(self.within("net", [sys.executable, script, "serve"]), "server.log")
        prefixes = [prefix_of(number) for number in range(self.count)]
        for name, text in [("net", internet(prefixes)), ("p1", PEER.format(n=1)), ("p2", PEER.format(n=2)), ("r", ROUTER)]:
            self.start_frr(name, text)

    def start_switch(self):
        self.journal.open()
        self.switch.start()
        sh(f"ovs-vsctl --timeout=20 add-br {PREFIX}br -- set bridge {PREFIX}br datapath_type=netdev fail_mode=secure "
           f"protocols=OpenFlow13 other-config:datapath-id=00000000000000e1 -- set-controller {PREFIX}br tcp:{OPENFLOW} "
           f"-- set controller {PREFIX}br max_backoff=1000")

    def connect(self, name, addresses):
        """Connects a namespace to its port of the switch."""
        outer = PREFIX + name
        sh(f"ip link add {outer} type veth peer name sw netns {PREFIX}{name}; ip link set {outer} up")
        for address in addresses:
            sh(f"ip -n {PREFIX}{name} addr add {address} dev sw")
        # The userspace datapath gets packets without checksums otherwise.
        sh(f"ip netns exec {PREFIX}{name} ethtool -K sw tx off; ip -n {PREFIX}{name} link set sw up; "
           f"ovs-vsctl --timeout=20 add-port {PREFIX}br {outer} -- set interface {outer} ofport_request={PORTS[name]}")

    def start_frr(self, name, text):
        folder = self.folder / name
        folder.mkdir()
        # FRR runs as its own user, which must reach its configuration and its sockets.
        self.folder.chmod(0o755)
        shutil.chown(folder, "frr", "frr")
        (folder / "frr.conf").write_text(COMMON.format(name=name, folder=folder) + text)
        options = ["--vty_socket", str(folder), "-z", f"{folder}/zserv"]
        zebra = self.spawn(self.within(name, [f"{FRR}/zebra", *options, "-i", f"{folder}/zebra.pid", "-f", "/dev/null"]),
                           "zebra.log")
        self.wait_for(zebra, folder / "zserv", "zebra.log")
        self.start_bgpd(name)

    def start_bgpd(self, name):
        folder = self.folder / name
        modules = ["-M", "bmp"] if name == "r" else []
        options = ["--vty_socket", str(folder), "-z", f"{folder}/zserv", "-i", f"{folder}/bgpd.pid"]
        self.bgpd[name] = self.spawn(self.within(name, [f"{FRR}/bgpd", *modules, *options, "-f", f"{folder}/frr.conf"]), "bgpd.log")

    def kill_bgpd(self, name):
        self.bgpd[name].kill()
        self.bgpd[name].wait()

    def freeze(self, name, is_frozen):
        """Stops or continues forwarding and bgpd of a router; its kernel still acknowledges TCP."""
        sh(f"ip netns exec {PREFIX}{name} sysctl -qw net.ipv4.ip_forward={0 if is_frozen else 1}")
        self.bgpd[name].send_signal(signal.SIGSTOP if is_frozen else signal.SIGCONT)

    def set_uplink(self, name, is_up):
        sh(f"ip -n {PREFIX}{name} link set sw {'up' if is_up else 'down'}")

    def start_daemon(self):
        command = [self.program, "serve", "--config", str(self.folder / "edge.toml")]
        self.daemon = self.spawn(command, "daemon.log")
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                self.get("/v1/edge")
                return
            except OSError:
                time.sleep(0.01)
        raise SystemExit("check-bgp: the daemon did not start: " + self.log()[-2000:])

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def is_running(self):
        return self.daemon.poll() is None

    def log(self):
        return (self.folder / "daemon.log").read_text()

    def get(self, path):
        with urllib.request.urlopen(f"http://{HTTP}{path}", timeout=10) as reply:
            return reply.read().decode()

    def load(self, rate, seconds):
        script = str(pathlib.Path(__file__).resolve())
        return subprocess.Popen(self.within("c", [sys.executable, script, "load", str(rate), str(seconds), str(self.count)]),
                                stdout=subprocess.PIPE, text=True)

    def speaker(self, mode, prefixes, seconds):
        script = str(pathlib.Path(__file__).resolve())
        done = subprocess.run(self.within("p1", [sys.executable, script, "speak", mode, str(prefixes), str(seconds)]),
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit("check-bgp: the BGP speaker failed: " + done.stderr)
        print("  " + done.stdout.strip(), flush=True)

    def hostile_bmp(self):
        """Sends malformed BMP bytes, from the router and from an address that is not listed."""
        script = str(pathlib.Path(__file__).resolve())
        subprocess.run(self.within("r", [sys.executable, script, "bmp"]), check=True)
        subprocess.run([sys.executable, script, "bmp"], check=True)


# --- processes inside the namespaces


def serve():
    """A HTTP server at every address: one small reply for each connection."""
    import selectors
    reply = b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000
    listener = socket.create_server(("0.0.0.0", 80), backlog=4096)
    listener.setblocking(False)
    poll = selectors.EpollSelector()
    poll.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in poll.select():
            if key.fileobj is listener:
                try:
                    while True:
                        connection, _ = listener.accept()
                        connection.setblocking(False)
                        poll.register(connection, selectors.EVENT_READ)
                except BlockingIOError:
                    continue
            connection = key.fileobj
            try:
                if connection.recv(4096):
                    connection.send(reply)
            except BlockingIOError:
                continue
            except OSError:
                pass
            poll.unregister(connection)
            connection.close()


def load(rate, seconds, prefixes):
    """Sends requests at a fixed rate, and prints the time of the first one, and start and latency of each."""
    import json
    import selectors
    lost_after = 5.0
    poll, rows, pending = selectors.EpollSelector(), [], {}
    begin = time.monotonic() + 0.5
    print(begin, flush=True)
    total, sent = rate * seconds, 0

    def end(connection, row, now):
        poll.unregister(connection)
        connection.close()
        del pending[connection]
        if now is not None:
            rows[row][1] = (now - begin - rows[row][0]) * 1000

    while sent < total or pending:
        now = time.monotonic()
        while sent < total and begin + sent / rate <= now:
            connection = socket.socket()
            connection.setblocking(False)
            number = sent * 7919 % prefixes
            rows.append([now - begin, None])
            try:
                connection.connect((f"20.{number // 256}.{number % 256}.{1 + sent % 250}", 80))
            except BlockingIOError:
                pass
            poll.register(connection, selectors.EVENT_WRITE, sent)
            pending[connection] = now
            sent += 1
        wait = begin + sent / rate - time.monotonic() if sent < total else 0.05
        for key, events in poll.select(max(wait, 0)):
            connection = key.fileobj
            try:
                if events & selectors.EVENT_WRITE:
                    connection.send(b"GET / HTTP/1.0\r\n\r\n")
                    poll.modify(connection, selectors.EVENT_READ, key.data)
                elif len(connection.recv(4096)) > 1000:
                    end(connection, key.data, time.monotonic())
            except BlockingIOError:
                pass
            except OSError:
                end(connection, key.data, None)
        now = time.monotonic()
        while pending and now - next(iter(pending.values())) > lost_after:
            connection = next(iter(pending))
            end(connection, poll.get_key(connection).data, None)
    print(json.dumps(rows))


MARKER = b"\xff" * 16


def message(kind, body=b""):
    return MARKER + struct.pack("!HB", 19 + len(body), kind) + body


def nlri(number):
    return bytes([24, 20, number // 256, number % 256])


def update(withdrawn, attributes, announced):
    return message(2, struct.pack("!H", len(withdrawn)) + withdrawn + struct.pack("!H", len(attributes)) + attributes + announced)


ORIGIN = bytes([0x40, 1, 1, 0])
AS_PATH = bytes([0x40, 2, 6, 2, 1]) + struct.pack("!I", 65001)
NEXT_HOP = bytes([0x40, 3, 4, 10, 1, 1, 2])
ATTRIBUTES = ORIGIN + AS_PATH + NEXT_HOP
MALFORMED = [
    update(b"", ORIGIN + AS_PATH + bytes([0x40, 3, 200, 10, 1, 1, 2]), nlri(0)),  # A length beyond the message.
    update(b"", ORIGIN + AS_PATH, nlri(1)),  # No next hop.
    update(b"", ATTRIBUTES, bytes([77, 20, 0, 2])),  # A prefix of 77 bits.
    update(b"", bytes([0x40, 1, 1, 9]) + AS_PATH + NEXT_HOP, nlri(3)),  # An unknown origin.
    update(b"", ORIGIN + bytes([0x40, 2, 3, 9, 255, 1]) + NEXT_HOP, nlri(4)),  # A path segment of an unknown type.
    update(bytes([255]), ATTRIBUTES, b""),  # A withdrawal that is cut off.
    update(b"", ATTRIBUTES + ATTRIBUTES, nlri(5)),  # Attributes twice.
    message(2, b"\xff\xff"),  # Lengths beyond the message.
    message(9, b""),  # An unknown type.
    b"\x00" * 19,  # No marker.
]


def session():
    """Opens a BGP session to the router; returns its socket."""
    connection = socket.create_connection(("10.1.1.1", 179), timeout=5)
    capabilities = bytes([1, 4, 0, 1, 0, 1]) + bytes([65, 4]) + struct.pack("!I", 65001)
    options = bytes([2, len(capabilities)]) + capabilities
    connection.send(message(1, struct.pack("!BHH4sB", 4, 65001, 90, socket.inet_aton("10.1.1.2"), len(options)) + options))
    connection.recv(4096)
    connection.send(message(4))
    time.sleep(0.3)
    return connection


def speak(mode, prefixes, seconds):
    numbers = range(prefixes)
    if mode == "malformed":
        closed = 0
        for bad in MALFORMED:
            connection = session()
            connection.send(bad)
            connection.settimeout(1)
            try:
                while connection.recv(65536):
                    pass
                closed += 1
            except TimeoutError:
                pass
            except ConnectionError:
                closed += 1
            connection.close()
            time.sleep(0.1)
        print(f"{len(MALFORMED)} malformed messages, {closed} sessions closed by the router")
        return
    connection, rounds, until = session(), 0, time.monotonic() + seconds
    connection.setblocking(True)
    while time.monotonic() < until:
        for begin in range(0, prefixes, 500):
            part = b"".join(nlri(number) for number in numbers[begin:begin + 500])
            connection.sendall(update(b"", ATTRIBUTES, part))
        time.sleep(0.05)
        for begin in range(0, prefixes, 500):
            part = b"".join(nlri(number) for number in numbers[begin:begin + 500])
            connection.sendall(update(part, b"", b""))
        connection.sendall(message(4))
        time.sleep(0.05)
        rounds += 1
    print(f"{rounds} rounds: {prefixes} prefixes announced and withdrawn in each")


def hostile_bmp():
    import random
    draw = random.Random(1)
    for number in range(20):
        try:
            connection = socket.create_connection(("10.9.9.1", 11019), timeout=2)
            body = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 300)))
            head = [b"GET / HTTP/1.0\r\n\r\n", b"\x03\xff\xff\xff\xff\x00", struct.pack("!BIB", 3, 6 + len(body), number % 7)]
            connection.sendall(head[number % 3] + body)
            connection.settimeout(0.2)
            connection.recv(1)
        except OSError:
            pass


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    elif sys.argv[1] == "load":
        load(*map(int, sys.argv[2:5]))
    elif sys.argv[1] == "bmp":
        hostile_bmp()
    else:
        speak(sys.argv[2], *map(int, sys.argv[3:5]))
