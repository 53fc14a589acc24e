"""The emulated network: Mininet's hosts and links, Open vSwitch's bridges, queues by tc."""

import json
import os
import subprocess
import time

from journal import Refused, is_interface, read_sysctl
from openvswitch import OpenVSwitch, has_kernel_datapath, run

# Parts of a queue shared by sender: hosts whose addresses differ by less never share a part.
SENDERS = 32
# Parts of a host's queue shared by flow: two of ten flows share a part in 2 % of the cases.
FLOWS = 2048
FIRST_PART = 0x100
# Classic BPF that returns the part of a packet: the source address at byte 26 of the frame, or the sum
# of both TCP or UDP ports at byte 34; then modulo, plus the number of the first class.
BY_SENDER = "4,32 0 0 26,148 0 0 {parts},4 0 0 {first},22 0 0 0,"
BY_FLOW = "7,40 0 0 34,7 0 0 0,40 0 0 36,12 0 0 0,148 0 0 {parts},4 0 0 {first},22 0 0 0,"
OFFLOADS = "rx off tx off sg off tso off ufo off gso off gro off"


def has_qdisc(kind, *options, filters=None):
    """Returns whether the kernel has a queueing discipline and a kind of filters.

    Tries them on a new interface in a new namespace.
    """
    script = f"ip link add abprobe0 type veth peer name abprobe1 && tc qdisc add dev abprobe0 root handle 1: {kind} {' '.join(options)}"
    if filters is not None:
        script += f" && tc filter add dev abprobe0 parent 1: protocol 0x88cc prio 1 {filters}"
    done = subprocess.run(["unshare", "-n", "sh", "-c", script], capture_output=True, check=False)
    return done.returncode == 0


def queue_limit(limit):
    """Returns a leaf queue for tc, limited in packets or bytes."""
    return f"pfifo limit {limit['packets']}" if "packets" in limit else f"bfifo limit {limit['bytes']}"


def queue(limit, delay_us):
    """Returns a leaf queue with a delay: the limit of netem is its queue, which comes before the delay."""
    packets = limit.get("packets") or max(1, limit.get("bytes", 0) // 1514)
    return f"netem delay {delay_us}us limit {packets}" if delay_us else queue_limit(limit)


class Network:
    """A network; `plan.rs` documents the fields of the plan."""

    def __init__(self, plan, journal):
        # Mininet is imported late, because `down` must work without it.
        from mininet.net import Mininet
        from mininet.node import Host, OVSSwitch

        self.plan = plan
        self.journal = journal
        self.switch_class, self.host_class = OVSSwitch, Host
        self.net = Mininet(controller=None, build=False)
        self.ovs = OpenVSwitch(journal)
        self.datapath = None
        self.room = ([], False)

    def start(self):
        """Builds the network; returns its datapath and the processors for other processes."""
        taken = [name for name in self.interfaces() if is_interface(name)]
        if taken:
            raise Refused(f"an interface {taken[0]} exists that is not part of a testbed; remove it first")
        wanted = self.plan["datapath"]
        has_kernel = wanted != "user" and has_kernel_datapath()
        if wanted == "kernel" and not has_kernel:
            raise Refused("testbed.datapath = \"kernel\": this kernel lacks the module openvswitch; use \"auto\" or \"user\"")
        self.datapath = "kernel" if has_kernel else "user"
        self.ovs.start()
        self.switch_class.setup()
        for name in self.interfaces():
            self.journal.add(interface=name)
        self.add_nodes()
        self.add_links()
        self.start_switches()
        self.send_first_packet()
        self.journal.restore_sysctls()
        self.tune()
        self.configure_hosts()
        return {"datapath": self.datapath, "processors": self.room[0], "own_processor": self.room[1]}

    def interfaces(self):
        """Returns the names of all interfaces in the namespace of the switches."""
        names = [switch["name"] for switch in self.plan["switches"]]
        switches = set(names)
        for link in self.plan["links"]:
            names += [end["interface"] for end in (link["a"], link["b"]) if end["node"] in switches]
        return names

    def add_nodes(self):
        for host in self.plan["hosts"]:
            node = self.net.addHost(host["name"], cls=self.host_class, ip=None, mac=None)
            self.journal.process(node.pid)
        for switch in self.plan["switches"]:
            node = self.net.addSwitch(
                switch["name"], cls=self.switch_class, dpid=f"{switch['dpid']:016x}", datapath=self.datapath,
                protocols="OpenFlow13,OpenFlow15", failMode="secure", batch=True,
            )
            self.journal.process(node.pid)

    def add_links(self):
        for link in self.plan["links"]:
            a, b = link["a"], link["b"]
            self.net.addLink(
                a["node"], b["node"], port1=a["port"], port2=b["port"], intfName1=a["interface"], intfName2=b["interface"]
            )

    def start_switches(self):
        switches = self.net.switches
        for switch in switches:
            switch.start([])
        self.switch_class.batchStartup(switches)
        ports = {}
        names = {switch["name"] for switch in self.plan["switches"]}
        for link in self.plan["links"]:
            ports.update({end["interface"]: end["port"] for end in (link["a"], link["b"]) if end["node"] in names})
        self.ovs.verify(ports)
        self.ovs.check()
        self.room = self.ovs.make_room()

    def send_first_packet(self):
        """Makes the userspace datapath send a frame, and thereby create its sending socket.

        This socket needs the large buffer; sockets that hosts create later need the default one.
        """
        if self.datapath != "user":
            return
        switch = self.plan["switches"][0]["name"]
        port = next(end for link in self.plan["links"] for end in (link["a"], link["b"]) if end["node"] == switch)
        # The destination does not exist; the type is reserved for local experiments (IEEE 802).
        frame = "0200000000ff" + "0200000000fe" + "88b5" + "00" * 46
        before = self.counters()[port["interface"]][4]
        self.ovs.send(switch, port["port"], frame)
        until = time.monotonic() + 10
        while self.counters()[port["interface"]][4] <= before:
            if time.monotonic() > until:
                raise Refused(f"Open vSwitch sends no frame out of {port['interface']}")
            time.sleep(0.01)

    def ends(self):
        """Yields every end of every link with its sending rate, delay and queue."""
        hosts = {host["name"] for host in self.plan["hosts"]}
        for link in self.plan["links"]:
            for end, rate in ((link["a"], link["rate_ab"]), (link["b"], link["rate_ba"])):
                is_host = end["node"] in hosts
                limit = self.plan["host_queue" if is_host else "switch_queue"]
                yield end, rate, link["delay_us"], limit, is_host

    def tune(self):
        """Rates, queues, delays and offloads: one batch for all switches, one for each host."""
        batches = {}
        for end, rate, delay_us, limit, is_host in self.ends():
            lines = batches.setdefault(end["node"] if is_host else None, ([], []))
            lines[0].extend(self.shaping(end["interface"], rate, delay_us, limit, is_host))
            lines[1].append(end["interface"])
        for node, (shaping, interfaces) in batches.items():
            inside = self.inside(node)
            if shaping:
                run(*inside, "tc", "-batch", "-", text="\n".join(shaping) + "\n")
            # Even without offloads TCP queues packets of up to 64 KB, which the kernel splits after
            # the queue. Flows that alternate in such packets share by their windows and send bursts.
            script = "set -e\n" + "\n".join(
                f"ethtool -K {name} {OFFLOADS} >/dev/null 2>&1 || true\n"
                f"[ ! -d /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6\n"
                f"ip link set {name} gso_max_segs 1 up" for name in interfaces
            )
            run(*inside, "sh", "-c", script)

    def shaping(self, name, rate, delay_us, limit, is_host):
        """Returns lines for tc: a token bucket at the link's rate, below it the queue, below that the delay."""
        if rate is None:
            return []
        # A bucket of two packets: a larger one would pass bursts that a real link cannot.
        bucket = f"rate {rate}bit ceil {rate}bit burst 3100 cburst 3100 quantum 3100"
        leaf = queue(limit, delay_us)
        lines = [f"qdisc add dev {name} root handle 5: htb default 1", f"class add dev {name} parent 5: classid 5:1 htb {bucket}"]
        turns = self.plan["turns"]
        if is_host and turns == "per-flow":
            # TCP limits its own data in the interface (TCP small queues).
            lines += self.take_turns(name, rate, (FLOWS, queue(limit, delay_us)), BY_FLOW)
        elif not is_host and turns == "per-sender":
            share = {key: max(1, size // SENDERS) for key, size in limit.items()}
            lines += self.take_turns(name, rate, (SENDERS, queue(share, delay_us)), BY_SENDER)
        else:
            lines.append(f"qdisc add dev {name} parent 5:1 handle 10: {leaf}")
        reserves = not is_host and self.plan.get("reserves_control_queue", True)
        return lines + self.reserve(name, bucket, leaf) if reserves else lines

    def take_turns(self, name, rate, parts, program):
        """Returns lines for tc: a queue in parts that are served in turn and use the rate others leave.

        In order of arrival, the port that Open vSwitch reads first would fill a full switch queue,
        because the order of ports never changes; at a host, the flow that began first would.
        """
        count, leaf = parts
        lines = []
        for number in range(count):
            minor = f"{FIRST_PART + number:x}"
            lines += [
                f"class add dev {name} parent 5:1 classid 5:{minor} htb rate {max(8, rate // count)}bit ceil {rate}bit "
                "burst 3100 cburst 3100 quantum 1514",
                f"qdisc add dev {name} parent 5:{minor} handle {minor}: {leaf}",
            ]
        program = program.format(parts=count, first=(5 << 16) + FIRST_PART)
        return [*lines, f"filter add dev {name} parent 5: protocol ip prio 3 bpf bytecode \"{program}\""]

    def reserve(self, name, bucket, leaf):
        """Returns lines for tc: frames of the controller (discovery, ARP) have a separate queue.

        Switches and the simulator have such a queue too. A full data queue would drop the frames,
        and after two losses in a row a controller considers the link dead.
        """
        of_frames = [
            f"filter add dev {name} parent 5: protocol {number} prio {prio} u32 match u32 0 0 flowid 5:2"
            for prio, number in ((1, "0x88cc"), (2, "0x0806"))
        ]
        return [
            f"class add dev {name} parent 5: classid 5:2 htb {bucket}", f"qdisc add dev {name} parent 5:2 handle 20: {leaf}", *of_frames,
        ]

    def inside(self, node):
        """Returns the prefix of a command that runs in a host; empty for the namespace of the switches."""
        return [] if node is None else ["mnexec", "-a", str(self.net.nameToNode[node].pid)]

    def configure_hosts(self):
        """Sets addresses and, as in F0, permanent neighbour entries, unless hosts resolve addresses."""
        hosts = self.plan["hosts"]
        # A plan that needs a congestion control is rejected earlier if the kernel lacks it.
        law = self.plan["congestion"]
        known = read_sysctl("net.ipv4.tcp_available_congestion_control").split()
        congestion = f" congctl {law}" if law in known else ""
        for host in hosts:
            name = host["interface"]
            lines = ["link set lo up", f"link set {name} address {host['mac']}", f"addr add {host['ip']}/8 dev {name}"]
            # Set on the route: a namespace may only use the congestion controls that the machine allows,
            # and its default is that of the machine.
            network = ".".join([host["ip"].split(".")[0], "0", "0", "0"])
            lines += [
                f"link set {name} up",
                f"route replace {network}/8 dev {name} proto kernel scope link src {host['ip']}{congestion}",
            ]
            lines += [
                f"neigh replace {other['ip']} lladdr {other['mac']} dev {name} nud permanent"
                for other in hosts if other is not host and not self.plan.get("resolves")
            ]
            run(*self.inside(host["name"]), "ip", "-batch", "-", text="\n".join(lines) + "\n")

    def forget_neighbours(self):
        """Empties the ARP caches of hosts that resolve addresses: the addresses of an earlier phase may be others."""
        for host in self.plan["hosts"] if self.plan.get("resolves") else []:
            run(*self.inside(host["name"]), "ip", "neigh", "flush", "dev", host["interface"])

    def counters(self):
        """Returns per switch port: bytes, packets and drops received, then the same sent."""
        counters = {}
        with open("/proc/net/dev", encoding="ascii") as file:
            for line in file.readlines()[2:]:
                name, _, numbers = line.partition(":")
                name = name.strip()
                if name.startswith("ab") and "-eth" in name:
                    n = numbers.split()
                    counters[name] = [int(n[i]) for i in (0, 1, 3, 8, 9, 11)]
        return counters

    def queues(self):
        """Returns per shaped interface: packets dropped by its queue, and packets in it."""
        found = {}
        for node in [None] + [host["name"] for host in self.plan["hosts"]]:
            for queue in json.loads(run(*self.inside(node), "tc", "-s", "-j", "qdisc", "show") or "[]"):
                if queue.get("kind") == "htb" and queue.get("root"):
                    found[queue["dev"]] = {"drops": queue["drops"], "backlog": queue["qlen"]}
        return found

    def host_counters(self):
        """Returns per host: packets sent, IP packets received, datagrams dropped by its sockets."""
        found = {}
        for host in self.plan["hosts"]:
            pid = self.net.nameToNode[host["name"]].pid
            with open(f"/proc/{pid}/net/snmp", encoding="ascii") as file:
                lines = [line.split() for line in file]
            of = {}
            for names, values in zip(lines[::2], lines[1::2]):
                of.update({names[0] + name: int(value) for name, value in zip(names[1:], values[1:])})
            with open(f"/proc/{pid}/net/dev", encoding="ascii") as file:
                numbers = next(line for line in file if line.strip().startswith(host["interface"] + ":")).split(":")[1].split()
            found[host["name"]] = {
                "sent": int(numbers[9]), "received": of["Ip:InReceives"], "socket_drops": of["Udp:InErrors"],
            }
        return found

    def set_link(self, index, is_up):
        """Connects or disconnects a cable at both ends at once."""
        link = self.plan["links"][index]
        names = {switch["name"] for switch in self.plan["switches"]}
        ends = [end["interface"] for end in (link["a"], link["b"]) if end["node"] in names]
        lines = [f"link set {name} {'up' if is_up else 'down'}\n" for name in ends]
        run("ip", "-batch", "-", text="".join(lines))

    def stop(self):
        """Removes switches and processes; the journal covers the rest."""
        switches = [switch["name"] for switch in self.plan["switches"]]
        try:
            words = []
            for name in switches:
                words += ["--", "--if-exists", "del-br", name]
            subprocess.run(["ovs-vsctl", "--timeout=20", *words[1:]], capture_output=True, check=False)
        finally:
            self.ovs.stop()


def host_pids(network):
    """Returns the process that holds the namespace of each host."""
    return {host["name"]: network.net.nameToNode[host["name"]].pid for host in network.plan["hosts"]}


def machine():
    """Returns the capabilities of this machine; see `Machine` in driver.rs."""
    try:
        from mininet.net import VERSION as mininet
    except ImportError:
        mininet = None
    from openvswitch import version

    is_root = os.geteuid() == 0
    tools = (
        "ITGSend", "ITGRecv", "ITGDec", "iperf3", "tc", "ip", "ethtool", "mnexec", "ovs-vsctl", "ovs-ofctl", "ovsdb-server", "nginx",
        "vsftpd", "wget",
    )
    paths = os.environ.get("PATH", "").split(":") + ["/usr/sbin", "/sbin"]
    return {
        "is_root": is_root,
        "mininet": mininet,
        "openvswitch": version(),
        "has_kernel_datapath": is_root and has_kernel_datapath(),
        "has_netem": is_root and has_qdisc("netem", "delay", "1ms"),
        "has_htb": is_root and has_qdisc("htb"),
        "has_u32": is_root and has_qdisc("htb", filters="u32 match u32 0 0 flowid 1:1"),
        "has_bpf": is_root and has_qdisc("htb", filters="bpf bytecode '1,22 0 0 0,'"),
        "tools": [tool for tool in tools if any(os.access(os.path.join(path, tool), os.X_OK) for path in paths)],
        "kernel": os.uname().release,
    }
