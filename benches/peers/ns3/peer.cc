// The ns-3 peer of the `anabranch` packet engine: the same network, flows and paths in ns-3.
//
// Builds with Debian 12's libns3-dev (3.37) and with PyPI's `ns3` (3.44). See README.md for options, conventions
// and recorded figures.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#ifndef NS3_BUILD // Set by the Makefile.
#define NS3_BUILD "ns-3 (unknown version and build"
#define PEER_FLAGS "unknown flags"
#endif

using namespace ns3;

namespace {

const char* const kVersion = NS3_BUILD "; peer: GCC " __VERSION__ " " PEER_FLAGS ")";

[[noreturn]] void Fail(const std::string& message) {
    std::cerr << "error: " << message << "\n";
    std::exit(2);
}

// ---------------------------------------------------------------- options

struct Options {
    std::string scenario = "file";
    std::string topology;
    std::string flows;
    std::string out;
    std::string dumpFlows;
    std::string rate = "10Gbps";
    std::string hostRate;  // Empty: as `rate`.
    std::string delay = "1us";
    std::string transport = "newreno";
    std::string minRto = "5ms";
    std::string clockGranularity = "1us";
    std::string marking = "device";
    std::string scheduler = "map";
    uint32_t queue = 100;
    uint32_t hostQueue = 100000;
    uint32_t mark = 0;
    uint32_t iw = 10;
    uint32_t maxWindow = 200;
    uint32_t mss = 1460;
    uint32_t packets = 0;   // packets per flow of S1 and S3; 0 = the scenario's own
    uint32_t flowCount = 0; // flows of S4; 0 = the scenario's own
    uint32_t dctcpMinWindow = 2;
    double dctcpAlpha = 1.0;
    double until = 0; // s; 0 = until every flow has completed
    bool count = false;
    bool preconnect = false;
    bool close = false;
    bool limitedTransmit = false;
    bool ppp = false;
};

const char* const kUsage =
    R"(usage: peer --scenario S1|S3|S4|file [options]   (options as `--name value` or `--name=value`)
  --topology T        fat-tree:k=K | leaf-spine:leaves=L,spines=S,hosts=H | dumbbell:pairs=N
  --flows FILE        CSV with header, columns src,dst,size_bytes,start_ps        (scenario `file`)
  --out FILE          one CSV line per flow
  --dump-flows FILE   write the flow list as such a CSV and stop
  --rate R --delay D  of every link                                              [10Gbps, 1us]
  --host-rate R       of links to hosts                                          [as --rate]
  --queue N           packets a switch port holds, the one in service included   [100]
  --host-queue N      the same for host NICs                                     [100000]
  --transport T       newreno | dctcp                                            [newreno]
  --mark K            DCTCP: mark a packet that finds K or more in the queue, the one in service included
  --marking M         device: in the device queue; red: RedQueueDisc             [device]
  --iw N              initial window, packets                                    [10]
  --max-window N      receive window, packets                                    [200]
  --mss N             payload bytes of a full packet (40 B of headers on top)    [1460]
  --min-rto T         also SYN timeout                                           [5ms; 250ms in S1, S3, S4]
  --clock-granularity T   lower bound of 4*rttvar                                [1us]
  --dctcp-alpha A     initial alpha                                              [1]
  --dctcp-min-window N    packets; 0 = TcpDctcp as it is                         [2]
  --limited-transmit 0|1                                                         [0]
  --preconnect 0|1    connect every flow before time 0: no handshake in any FCT  [0]
  --close 0|1         exchange FINs once a flow has completed                    [0]
  --ppp 0|1           let the two PPP bytes take time on the wire                [0]
  --count 0|1         count packet-hops                                          [0]
  --scheduler S       map | heap | list | calendar | priority-queue              [map]
  --packets N         packets per flow in S1, S3        --flow-count N   flows in S4
  --until SECONDS     stop then even if flows are running
  --version           print version and build of ns-3, and the build of this program
)";

double Number(const std::string& value) {
    char* end = nullptr;
    double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != 0 || number < 0 || number > 4e9) Fail("`" + value + "` is not a number in range");
    return number;
}

bool Flag(const std::string& value) {
    if (value == "1" || value == "true") return true;
    if (value == "0" || value == "false") return false;
    Fail("a switch takes 0 or 1, not `" + value + "`");
}

Options Parse(int argc, char** argv) {
    std::vector<std::pair<std::string, std::string>> given;
    for (int i = 1; i < argc; ++i) {
        std::string arg = argv[i];
        if (arg == "--help" || arg == "-h") {
            std::cout << kUsage;
            std::exit(0);
        }
        if (arg == "--version") {
            std::cout << kVersion << "\n";
            std::exit(0);
        }
        if (arg.rfind("--", 0) != 0) Fail("`" + arg + "` is not an option\n" + kUsage);
        auto eq = arg.find('=');
        if (eq != std::string::npos) {
            given.emplace_back(arg.substr(2, eq - 2), arg.substr(eq + 1));
        } else if (i + 1 < argc) {
            given.emplace_back(arg.substr(2), argv[++i]);
        } else {
            Fail(arg + " needs a value");
        }
    }
    Options o;
    for (auto& [name, value] : given) {
        if (name == "scenario") o.scenario = value;
    }
    if (o.scenario == "S1") {
        o.topology = "fat-tree:k=8";
    } else if (o.scenario == "S3") {
        o.topology = "fat-tree:k=16";
    } else if (o.scenario == "S4") {
        o.topology = "leaf-spine:leaves=16,spines=8,hosts=8";
        o.transport = "dctcp";
        o.mark = 15;
    } else if (o.scenario != "file") {
        Fail("unknown scenario `" + o.scenario + "`\n" + kUsage);
    }
    if (o.scenario != "file") o.minRto = "250ms";
    auto number = [](const std::string& v) { return static_cast<uint32_t>(Number(v)); };
    for (auto& [name, value] : given) {
        if (name == "scenario") continue;
        else if (name == "topology") o.topology = value;
        else if (name == "flows") o.flows = value;
        else if (name == "out") o.out = value;
        else if (name == "dump-flows") o.dumpFlows = value;
        else if (name == "rate") o.rate = value;
        else if (name == "host-rate") o.hostRate = value;
        else if (name == "delay") o.delay = value;
        else if (name == "transport") o.transport = value;
        else if (name == "min-rto") o.minRto = value;
        else if (name == "clock-granularity") o.clockGranularity = value;
        else if (name == "marking") o.marking = value;
        else if (name == "scheduler") o.scheduler = value;
        else if (name == "queue") o.queue = number(value);
        else if (name == "host-queue") o.hostQueue = number(value);
        else if (name == "mark") o.mark = number(value);
        else if (name == "iw") o.iw = number(value);
        else if (name == "max-window") o.maxWindow = number(value);
        else if (name == "mss") o.mss = number(value);
        else if (name == "packets") o.packets = number(value);
        else if (name == "flow-count") o.flowCount = number(value);
        else if (name == "dctcp-alpha") o.dctcpAlpha = Number(value);
        else if (name == "dctcp-min-window") o.dctcpMinWindow = number(value);
        else if (name == "until") o.until = Number(value);
        else if (name == "count") o.count = Flag(value);
        else if (name == "preconnect") o.preconnect = Flag(value);
        else if (name == "close") o.close = Flag(value);
        else if (name == "limited-transmit") o.limitedTransmit = Flag(value);
        else if (name == "ppp") o.ppp = Flag(value);
        else Fail("unknown option --" + name + "\n" + kUsage);
    }
    if (o.topology.empty()) Fail("--topology is missing");
    if (o.scenario == "file" && o.flows.empty()) Fail("--flows is missing");
    if (o.transport != "newreno" && o.transport != "dctcp") Fail("--transport: newreno or dctcp");
    if (o.marking != "device" && o.marking != "red") Fail("--marking: device or red");
    if (o.transport == "dctcp" && o.mark == 0) Fail("--transport dctcp needs --mark");
    if (o.transport == "newreno") o.mark = 0;
    if (o.queue < 3 || o.hostQueue < 3) Fail("queues hold at least 3 packets");
    return o;
}

// ---------------------------------------------------------------- paths and topologies

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

uint64_t Mix(uint64_t z) {
    z ^= z >> 30;
    z *= 0xbf58476d1ce4e5b9ULL;
    z ^= z >> 27;
    z *= 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

uint32_t PathIndex(uint32_t src, uint32_t dst, uint32_t paths) {
    return static_cast<uint32_t>(Mix(((uint64_t{src} << 20) | dst) + kGolden) % paths);
}

// A topology: its cables, and the numbers by which its switches pick ports.
struct Fabric {
    enum Family { kFatTree, kLeafSpine, kDumbbell } family = kFatTree;
    uint32_t hosts = 0;
    uint32_t switches = 0;
    uint32_t m = 0;       // fat-tree: k/2
    uint32_t perLeaf = 0; // leaf-spine: hosts per leaf
    uint32_t leaves = 0, spines = 0;
    uint32_t pairs = 0;   // dumbbell
    // Cables as node pairs; hosts are nodes 0.., switches follow. A node's ports are its cables in this order.
    std::vector<std::pair<uint32_t, uint32_t>> cables;
};

std::map<std::string, uint32_t> Parameters(const std::string& text) {
    std::map<std::string, uint32_t> out;
    std::stringstream all(text);
    for (std::string item; std::getline(all, item, ',');) {
        auto eq = item.find('=');
        if (eq == std::string::npos) Fail("topology: `" + item + "` is not key=value");
        out[item.substr(0, eq)] = static_cast<uint32_t>(Number(item.substr(eq + 1)));
    }
    return out;
}

uint32_t Take(std::map<std::string, uint32_t>& parameters, const std::string& key) {
    auto it = parameters.find(key);
    if (it == parameters.end() || it->second == 0) Fail("topology: needs " + key + " above 0");
    uint32_t value = it->second;
    parameters.erase(it);
    return value;
}

Fabric FatTree(uint32_t k) {
    if (k % 2 != 0) Fail("fat-tree: k must be even");
    Fabric f;
    f.family = Fabric::kFatTree;
    uint32_t m = f.m = k / 2;
    f.hosts = k * m * m;
    f.switches = 2 * k * m + m * m;
    uint32_t edge = f.hosts, agg = edge + k * m, core = agg + k * m;
    for (uint32_t h = 0; h < f.hosts; ++h) f.cables.emplace_back(h, edge + h / m);
    for (uint32_t pod = 0; pod < k; ++pod)
        for (uint32_t e = 0; e < m; ++e)
            for (uint32_t a = 0; a < m; ++a) f.cables.emplace_back(edge + pod * m + e, agg + pod * m + a);
    for (uint32_t pod = 0; pod < k; ++pod)
        for (uint32_t a = 0; a < m; ++a)
            for (uint32_t c = 0; c < m; ++c) f.cables.emplace_back(agg + pod * m + a, core + a * m + c);
    return f;
}

Fabric LeafSpine(uint32_t leaves, uint32_t spines, uint32_t hosts) {
    Fabric f;
    f.family = Fabric::kLeafSpine;
    f.leaves = leaves, f.spines = spines, f.perLeaf = hosts;
    f.hosts = leaves * hosts;
    f.switches = leaves + spines;
    for (uint32_t h = 0; h < f.hosts; ++h) f.cables.emplace_back(h, f.hosts + h / hosts);
    for (uint32_t l = 0; l < leaves; ++l)
        for (uint32_t s = 0; s < spines; ++s) f.cables.emplace_back(f.hosts + l, f.hosts + leaves + s);
    return f;
}

Fabric Dumbbell(uint32_t pairs) {
    Fabric f;
    f.family = Fabric::kDumbbell;
    f.pairs = pairs;
    f.hosts = 2 * pairs;
    f.switches = 2;
    for (uint32_t h = 0; h < f.hosts; ++h) f.cables.emplace_back(h, f.hosts + h / pairs);
    f.cables.emplace_back(f.hosts, f.hosts + 1);
    return f;
}

Fabric BuildFabric(const std::string& spec) {
    auto colon = spec.find(':');
    std::string family = spec.substr(0, colon);
    auto p = Parameters(colon == std::string::npos ? "" : spec.substr(colon + 1));
    Fabric f;
    if (family == "fat-tree") {
        f = FatTree(Take(p, "k"));
    } else if (family == "leaf-spine") {
        uint32_t l = Take(p, "leaves"), s = Take(p, "spines"), h = Take(p, "hosts");
        f = LeafSpine(l, s, h);
    } else if (family == "dumbbell") {
        f = Dumbbell(Take(p, "pairs"));
    } else {
        Fail("unknown topology `" + family + "`");
    }
    if (!p.empty()) Fail("topology: unknown key `" + p.begin()->first + "`");
    return f;
}

// The port (0-based, in cable order) by which switch `s` (0-based) sends a packet of `src` on to `dst`.
uint32_t SwitchPort(const Fabric& f, uint32_t s, uint32_t src, uint32_t dst) {
    if (f.family == Fabric::kDumbbell) {
        return dst / f.pairs == s ? dst % f.pairs : f.pairs;
    }
    if (f.family == Fabric::kLeafSpine) {
        if (s >= f.leaves) return dst / f.perLeaf;
        if (dst / f.perLeaf == s) return dst % f.perLeaf;
        return f.perLeaf + PathIndex(src, dst, f.spines);
    }
    uint32_t m = f.m, k = 2 * m, perPod = m * m, dstPod = dst / perPod;
    if (s >= 2 * k * m) return dstPod; // core
    bool samePod = src / perPod == dstPod;
    if (s >= k * m) { // aggregation
        if (dstPod == (s - k * m) / m) return dst / m % m;
        return m + PathIndex(src, dst, m * m) % m;
    }
    if (dst / m == s) return dst % m; // edge
    return m + (samePod ? PathIndex(src, dst, m) : PathIndex(src, dst, m * m) / m);
}

// ---------------------------------------------------------------- flows

struct Flow {
    uint32_t src, dst;
    uint64_t size;
    int64_t startPs;
    // results, absolute simulator time; -1 = did not happen
    int64_t firstDataPs = -1, receiverPs = -1, senderPs = -1;
    uint64_t received = 0, dataPacketsSent = 0;
    bool connected = false, mayStart = false;
    Ptr<Socket> sender = nullptr, receiver = nullptr;
};

std::vector<Flow> StrideFlows(uint32_t hosts, uint32_t packets, uint32_t mss) {
    std::vector<Flow> flows;
    for (uint32_t i = 0; i < hosts; ++i)
        flows.push_back({i, (i + hosts / 2) % hosts, uint64_t{packets} * mss, int64_t{i} * 1000000});
    return flows;
}

// S4. Draws are the outputs of SplitMix64 seeded with 42, in the order gap, source, destination(s), size.
std::vector<Flow> PoissonFlows(uint32_t count, uint32_t mss) {
    const uint32_t hosts = 128, perLeaf = 8;
    const double meanPackets = 0.70 * 10 + 0.25 * 100 + 0.05 * 1000;
    const double meanGapPs = meanPackets * 1500 * 8 / (0.5 * hosts * 10e9) * 1e12;
    uint64_t state = 42;
    auto next = [&state] { return Mix(state += kGolden); };
    auto unit = [&next] { return static_cast<double>(next() >> 11) * 0x1.0p-53; };
    std::vector<Flow> flows;
    int64_t now = 0;
    for (uint32_t i = 0; i < count; ++i) {
        now += std::llround(-std::log1p(-unit()) * meanGapPs);
        uint32_t src = static_cast<uint32_t>(next() % hosts), dst;
        do dst = static_cast<uint32_t>(next() % hosts);
        while (dst / perLeaf == src / perLeaf);
        double u = unit();
        uint64_t packets = u < 0.70 ? 10 : u < 0.95 ? 100 : 1000;
        flows.push_back({src, dst, packets * mss, now});
    }
    return flows;
}

std::vector<Flow> ReadFlows(const std::string& path, uint32_t hosts) {
    std::ifstream in(path);
    if (!in) Fail("cannot read " + path);
    std::vector<Flow> flows;
    std::string line;
    std::getline(in, line);
    if (line != "src,dst,size_bytes,start_ps") Fail(path + ": first line must be src,dst,size_bytes,start_ps");
    while (std::getline(in, line)) {
        unsigned src, dst;
        unsigned long long size;
        long long start;
        if (std::sscanf(line.c_str(), "%u,%u,%llu,%lld", &src, &dst, &size, &start) != 4 || src == dst ||
            src >= hosts || dst >= hosts || size == 0 || size > 0x7fffffff || start < 0)
            Fail(path + ": bad flow `" + line + "`");
        flows.push_back({src, dst, size, start});
    }
    if (flows.empty()) Fail(path + ": no flows");
    return flows;
}

std::vector<Flow> BuildFlows(const Options& o, uint32_t hosts) {
    if (o.scenario == "S1") return StrideFlows(128, o.packets ? o.packets : 5000, o.mss);
    if (o.scenario == "S3") return StrideFlows(1024, o.packets ? o.packets : 1000, o.mss);
    if (o.scenario == "S4") return PoissonFlows(o.flowCount ? o.flowCount : 20000, o.mss);
    return ReadFlows(o.flows, hosts);
}

void DumpFlows(const std::string& path, const std::vector<Flow>& flows) {
    std::ofstream out(path);
    out << "src,dst,size_bytes,start_ps\n";
    for (auto& f : flows) out << f.src << ',' << f.dst << ',' << f.size << ',' << f.startPs << '\n';
    if (!out.flush()) Fail("cannot write " + path);
}

// ---------------------------------------------------------------- ns-3 pieces

constexpr uint32_t kFirstAddress = 0x0A000001; // host i is 10.0.0.1 + i

uint32_t HostOf(Ipv4Address address) { return address.Get() - kFirstAddress; }

// The parameter types of RouteInput's callbacks: values up to ns-3.37, const references in later versions.
template <typename Method> struct CallbacksOf;
template <typename U, typename M, typename L, typename E>
struct CallbacksOf<bool (Ipv4RoutingProtocol::*)(Ptr<const Packet>, const Ipv4Header&, Ptr<const NetDevice>, U, M, L, E)> {
    using Unicast = U;
    using Multicast = M;
    using Local = L;
    using Error = E;
};
using Callbacks = CallbacksOf<decltype(&Ipv4RoutingProtocol::RouteInput)>;

// Per-flow routes computed from (source, destination): no table, no allocation per packet.
class PathRouting : public Ipv4RoutingProtocol {
  public:
    static TypeId GetTypeId() {
        static TypeId tid = TypeId("PathRouting").SetParent<Ipv4RoutingProtocol>().AddConstructor<PathRouting>();
        return tid;
    }
    void Configure(const Fabric* fabric, uint32_t node) { m_fabric = fabric, m_node = node; }
    void AddPort(Ptr<NetDevice> device) {
        Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetOutputDevice(device);
        route->SetGateway(Ipv4Address::GetZero()); // none: the far end of the cable is meant
        if (IsHost()) route->SetSource(Ipv4Address(kFirstAddress + m_node));
        m_ports.push_back(route);
    }
    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header&, Ptr<NetDevice>, Socket::SocketErrno& error) override {
        error = Socket::ERROR_NOTERROR;
        return m_ports.at(0);
    }
    bool RouteInput(Ptr<const Packet> p, const Ipv4Header& header, Ptr<const NetDevice>, Callbacks::Unicast forward,
                    Callbacks::Multicast, Callbacks::Local deliver, Callbacks::Error) override {
        uint32_t dst = HostOf(header.GetDestination());
        if (IsHost()) {
            if (dst != m_node) return false;
            deliver(p, header, 1); // interface 0 is the loopback, 1 the only cable
            return true;
        }
        uint32_t port = SwitchPort(*m_fabric, m_node - m_fabric->hosts, HostOf(header.GetSource()), dst);
        forward(m_ports[port], p, header);
        return true;
    }
    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4>) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    bool IsHost() const { return m_node < m_fabric->hosts; }
    const Fabric* m_fabric = nullptr;
    uint32_t m_node = 0;
    std::vector<Ptr<Ipv4Route>> m_ports;
};

class PathRoutingHelper : public Ipv4RoutingHelper {
  public:
    PathRoutingHelper* Copy() const override { return new PathRoutingHelper(*this); }
    Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override { return CreateObject<PathRouting>(); }
};

// A drop-tail device queue that sets CE on an ECN-capable packet finding `m_threshold` or more waiting.
class MarkingQueue : public Queue<Packet> {
  public:
    static TypeId GetTypeId() {
        static TypeId tid = TypeId("MarkingQueue").SetParent<Queue<Packet>>().AddConstructor<MarkingQueue>();
        return tid;
    }
    uint32_t m_threshold = 0;
    uint64_t m_marks = 0;
    bool Enqueue(Ptr<Packet> item) override {
        if (GetNPackets() >= m_threshold && GetNPackets() < GetMaxSize().GetValue()) Mark(item);
        return DoEnqueue(GetContainer().end(), item);
    }
    Ptr<Packet> Dequeue() override { return DoDequeue(GetContainer().begin()); }
    Ptr<Packet> Remove() override { return DoRemove(GetContainer().begin()); }
    Ptr<const Packet> Peek() const override { return DoPeek(GetContainer().begin()); }

  private:
    void Mark(Ptr<Packet> packet) {
        PppHeader ppp; // the device has added it already
        Ipv4Header ip;
        packet->RemoveHeader(ppp);
        packet->RemoveHeader(ip);
        if (ip.GetEcn() != Ipv4Header::ECN_NotECT) {
            ip.SetEcn(Ipv4Header::ECN_CE);
            ++m_marks;
        }
        packet->AddHeader(ip);
        packet->AddHeader(ppp);
    }
};

// DCTCP with a smallest window, as in Linux. TcpDctcp has none: marks can shrink the window below one packet,
// and such a flow sends nothing until its retransmission timer happens to expire.
uint32_t g_minWindowPackets = 2;

class Dctcp : public TcpDctcp {
  public:
    static TypeId GetTypeId() {
        static TypeId tid = TypeId("Dctcp").SetParent<TcpDctcp>().AddConstructor<Dctcp>();
        return tid;
    }
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override {
        return std::max(g_minWindowPackets * tcb->m_segmentSize, TcpDctcp::GetSsThresh(tcb, bytesInFlight));
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<Dctcp>(this); }
};

NS_OBJECT_ENSURE_REGISTERED(Dctcp);

// A sender that survives a full window. When the data in flight equal the receive window exactly and a
// duplicate ACK lets one more packet out, ns-3.37 asks its buffer for a segment of no bytes and dereferences
// the null it gets. Saying that no window is left, unless a retransmission is due, is what it means to do.
class Sender : public TcpSocketBase {
  public:
    static TypeId GetTypeId() {
        static TypeId tid = TypeId("Sender").SetParent<TcpSocketBase>().AddConstructor<Sender>();
        return tid;
    }
    uint32_t AvailableWindow() const override {
        uint32_t outstanding = m_tcb->m_highTxMark.Get() - m_txBuffer->HeadSequence();
        if (outstanding >= m_rWnd.Get()) {
            SequenceNumber32 from, to;
            if (!m_txBuffer->NextSeg(&from, &to, false) || from == to) return 0;
        }
        return TcpSocketBase::AvailableWindow();
    }
    // What TcpL4Protocol::CreateSocket does for the class it knows.
    static Ptr<Socket> Create(Ptr<Node> node, TypeId congestion) {
        Ptr<TcpL4Protocol> tcp = node->GetObject<TcpL4Protocol>();
        Ptr<Sender> socket = CreateObject<Sender>();
        socket->SetNode(node);
        socket->SetTcp(tcp);
        socket->SetRtt(CreateObject<RttMeanDeviation>());
        socket->SetCongestionControlAlgorithm(ObjectFactory(congestion.GetName()).Create<TcpCongestionOps>());
        socket->SetRecoveryAlgorithm(CreateObject<TcpClassicRecovery>());
        tcp->AddSocket(socket);
        return socket;
    }
};

NS_OBJECT_ENSURE_REGISTERED(Sender);
NS_OBJECT_ENSURE_REGISTERED(PathRouting);
NS_OBJECT_ENSURE_REGISTERED(MarkingQueue);

// ---------------------------------------------------------------- the run

struct Totals {
    uint64_t hops = 0, dataHops = 0, hostDrops = 0, switchDrops = 0;
};

class Run {
  public:
    Run(const Options& options) : m_o(options), m_fabric(BuildFabric(options.topology)) {
        m_flows = BuildFlows(m_o, m_fabric.hosts);
        for (auto& f : m_flows)
            if (f.src >= m_fabric.hosts || f.dst >= m_fabric.hosts) Fail("a flow names a host outside the topology");
    }

    const std::vector<Flow>& Flows() const { return m_flows; }

    void Execute() {
        SetDefaults();
        BuildNetwork();
        Listen();
        ScheduleFlows();
        if (m_o.until > 0) Simulator::Stop(PicoSeconds(m_originPs) + Seconds(m_o.until));
        m_setupCpu = CpuSeconds();
        Simulator::Run();
    }

    void Report() const {
        if (!m_o.out.empty()) WriteResults();
        double receiverSum = 0, senderSum = 0, last = 0;
        uint64_t retransmissions = 0, marks = 0;
        for (auto& f : m_flows) {
            retransmissions += Retransmissions(f);
            if (f.senderPs < 0) continue;
            receiverSum += Us(f.receiverPs - Origin(f));
            senderSum += Us(f.senderPs - Origin(f));
            last = std::max(last, Us(f.senderPs - m_originPs));
        }
        for (auto& q : m_markingQueues) marks += q->m_marks;
        for (auto& d : m_discs) marks += d->GetStats().nTotalMarkedPackets;
        rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        std::printf("scenario=%s topology=%s transport=%s\n", m_o.scenario.c_str(), m_o.topology.c_str(), m_o.transport.c_str());
        std::printf("flows=%zu completed=%u\n", m_flows.size(), m_completed);
        if (m_completed) {
            std::printf("mean_fct_receiver_us=%.3f mean_fct_sender_us=%.3f last_completion_us=%.3f\n",
                        receiverSum / m_completed, senderSum / m_completed, last);
        }
        std::printf("switch_queue_drops=%lu host_queue_drops=%lu retransmissions=%lu ecn_marks=%lu\n", m_totals.switchDrops,
                    m_totals.hostDrops, retransmissions, marks);
        std::printf("events=%lu cpu_s=%.2f cpu_setup_s=%.2f peak_rss_mb=%.1f\n", Simulator::GetEventCount(), CpuSeconds(),
                    m_setupCpu, usage.ru_maxrss / 1024.0);
        if (m_o.count) {
            std::printf("packet_hops=%lu data_hops=%lu other_hops=%lu hops_per_cpu_s=%.0f\n", m_totals.hops, m_totals.dataHops,
                        m_totals.hops - m_totals.dataHops, m_totals.hops / CpuSeconds());
        }
    }

  private:
    static double Us(int64_t ps) { return ps / 1e6; }
    static double CpuSeconds() {
        rusage u;
        getrusage(RUSAGE_SELF, &u);
        return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    }
    static int64_t NowPs() { return Simulator::Now().GetTimeStep(); }
    int64_t Origin(const Flow& f) const { return m_originPs + f.startPs; }
    uint64_t Retransmissions(const Flow& f) const {
        uint64_t needed = (f.size + m_o.mss - 1) / m_o.mss;
        return f.dataPacketsSent > needed ? f.dataPacketsSent - needed : 0;
    }

    TypeId CongestionControl() const { return m_o.transport == "dctcp" ? Dctcp::GetTypeId() : TcpNewReno::GetTypeId(); }

    void SetDefaults() const {
        Time::SetResolution(Time::PS);
        g_minWindowPackets = m_o.dctcpMinWindow;
        std::map<std::string, std::string> schedulers = {{"map", "ns3::MapScheduler"},
                                                         {"heap", "ns3::HeapScheduler"},
                                                         {"list", "ns3::ListScheduler"},
                                                         {"calendar", "ns3::CalendarScheduler"},
                                                         {"priority-queue", "ns3::PriorityQueueScheduler"}};
        if (!schedulers.count(m_o.scheduler)) Fail("unknown scheduler `" + m_o.scheduler + "`");
        GlobalValue::Bind("SchedulerType", StringValue(schedulers[m_o.scheduler]));
        Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(CongestionControl()));
        Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
        Config::SetDefault("ns3::TcpDctcp::DctcpAlphaOnInit", DoubleValue(m_o.dctcpAlpha));
        Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
        Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(m_o.limitedTransmit));
        Config::SetDefault("ns3::TcpSocketBase::ReTxThreshold", UintegerValue(3));
        Config::SetDefault("ns3::TcpSocketBase::MinRto", StringValue(m_o.minRto));
        Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", StringValue(m_o.clockGranularity));
        Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", DoubleValue(0.001));
        Config::SetDefault("ns3::RttEstimator::InitialEstimation", StringValue("80us"));
        Config::SetDefault("ns3::TcpSocket::ConnTimeout", StringValue(m_o.minRto));
        Config::SetDefault("ns3::TcpSocket::ConnCount", UintegerValue(20));
        Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000000));
        Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
        Config::SetDefault("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
        Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(m_o.mss));
        Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(m_o.iw));
        Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(m_o.maxWindow * m_o.mss));
        Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(kSendBuffer));
    }

    void BuildNetwork() {
        m_nodes.Create(m_fabric.hosts + m_fabric.switches);
        InternetStackHelper stack;
        PathRoutingHelper routing;
        stack.SetIpv6StackInstall(false);
        stack.SetRoutingHelper(routing);
        stack.Install(m_nodes);
        for (uint32_t n = 0; n < m_nodes.GetN(); ++n) RoutingOf(n)->Configure(&m_fabric, n);
        // A byte time twice is what the PPP header takes. Taking it off the gap between packets and off the
        // delay leaves a wire on which a full packet is mss + 40 bytes long.
        for (auto [a, b] : m_fabric.cables) {
            bool host = a < m_fabric.hosts && !m_o.hostRate.empty();
            DataRate rate(host ? m_o.hostRate : m_o.rate);
            Connect(a, b, rate, m_o.ppp ? Time(0) : rate.CalculateBytesTxTime(2));
        }
    }

    Ptr<PathRouting> RoutingOf(uint32_t node) const {
        return DynamicCast<PathRouting>(m_nodes.Get(node)->GetObject<Ipv4>()->GetRoutingProtocol());
    }

    void Connect(uint32_t a, uint32_t b, DataRate rate, Time ppp) {
        Ptr<PointToPointChannel> channel = CreateObject<PointToPointChannel>();
        channel->SetAttribute("Delay", TimeValue(Time(m_o.delay) - ppp));
        for (uint32_t end : {a, b}) {
            Ptr<PointToPointNetDevice> device = CreateObject<PointToPointNetDevice>();
            device->SetAddress(Mac48Address::Allocate());
            device->SetDataRate(rate);
            device->SetInterframeGap(Time(0) - ppp);
            device->SetMtu(m_o.mss + 40);
            m_nodes.Get(end)->AddDevice(device);
            device->Attach(channel);
            bool host = end < m_fabric.hosts;
            device->SetQueue(DeviceQueue(host));
            device->GetQueue()->TraceConnectWithoutContext("Drop", MakeCallback(host ? &Run::HostDrop : &Run::SwitchDrop, this));
            if (m_o.count) device->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&Run::Hop, this));
            AddInterface(end, device, host);
        }
    }

    // Device queues do not hold the packet in service, hence one less than asked for.
    Ptr<Queue<Packet>> DeviceQueue(bool host) {
        uint32_t waiting = (host ? m_o.hostQueue : m_o.queue) - 1;
        Ptr<Queue<Packet>> queue;
        if (!host && m_o.mark && m_o.marking == "device") {
            Ptr<MarkingQueue> marking = CreateObject<MarkingQueue>();
            marking->m_threshold = m_o.mark - 1;
            m_markingQueues.push_back(marking);
            queue = marking;
        } else {
            queue = CreateObject<DropTailQueue<Packet>>();
            if (!host && m_o.mark) waiting = 1;
        }
        queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, waiting));
        return queue;
    }

    void AddInterface(uint32_t node, Ptr<PointToPointNetDevice> device, bool host) {
        Ptr<Ipv4> ipv4 = m_nodes.Get(node)->GetObject<Ipv4>();
        uint32_t interface = ipv4->AddInterface(device);
        if (host) ipv4->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(kFirstAddress + node), Ipv4Mask("255.0.0.0")));
        ipv4->SetUp(interface);
        RoutingOf(node)->AddPort(device);
        if (!host && m_o.mark && m_o.marking == "red") InstallRed(device);
    }

    // RED with the instantaneous length and one threshold. Ahead of the disc are the packet in service and
    // one in the device queue: the disc's own numbers are two less.
    void InstallRed(Ptr<PointToPointNetDevice> device) {
        Ptr<NetDeviceQueueInterface> interface = CreateObject<NetDeviceQueueInterface>();
        interface->GetTxQueue(0)->ConnectQueueTraces(device->GetQueue());
        device->AggregateObject(interface);
        TrafficControlHelper helper;
        double threshold = m_o.mark - 2;
        helper.SetRootQueueDisc("ns3::RedQueueDisc", "MinTh", DoubleValue(threshold), "MaxTh", DoubleValue(threshold), "QW",
                                DoubleValue(1.0), "Gentle", BooleanValue(false), "UseEcn", BooleanValue(true), "UseHardDrop",
                                BooleanValue(false), "MeanPktSize", UintegerValue(m_o.mss + 40), "LinkBandwidth",
                                StringValue(m_o.rate), "LinkDelay", StringValue(m_o.delay), "MaxSize",
                                StringValue(std::to_string(m_o.queue - 2) + "p"));
        QueueDiscContainer discs = helper.Install(device);
        discs.Get(0)->TraceConnectWithoutContext("Drop", MakeCallback(&Run::DiscDrop, this));
        m_discs.push_back(discs.Get(0));
    }

    void Listen() {
        for (uint32_t h = 0; h < m_fabric.hosts; ++h) {
            Ptr<Socket> listener = Socket::CreateSocket(m_nodes.Get(h), TcpSocketFactory::GetTypeId());
            listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
            listener->Listen();
            listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeCallback(&Run::Accepted, this));
            m_listeners.push_back(listener);
        }
    }

    // Time 0 of the flow list is `m_originPs` of the simulator: 0, or the end of the connecting phase.
    void ScheduleFlows() {
        const int64_t apart = 50000000; // ps; a handshake in an idle network takes less
        m_originPs = m_o.preconnect ? apart * static_cast<int64_t>(m_flows.size() + 1) : 0;
        for (uint32_t i = 0; i < m_flows.size(); ++i) {
            int64_t start = Origin(m_flows[i]);
            int64_t connect = m_o.preconnect ? apart * i : start;
            Simulator::Schedule(PicoSeconds(connect), &Run::ConnectFlow, this, i);
            if (m_o.preconnect) Simulator::Schedule(PicoSeconds(start), &Run::StartFlow, this, i);
        }
    }

    void ConnectFlow(uint32_t i) {
        Flow& f = m_flows[i];
        f.sender = Sender::Create(m_nodes.Get(f.src), CongestionControl());
        f.sender->SetConnectCallback(MakeCallback(&Run::Connected, this).Bind(i), MakeCallback(&Run::Refused, this).Bind(i));
        f.sender->SetSendCallback(MakeCallback(&Run::BufferFreed, this).Bind(i));
        f.sender->TraceConnectWithoutContext("Tx", MakeCallback(&Run::Transmitted, this).Bind(i));
        f.sender->Bind();
        Address name;
        f.sender->GetSockName(name);
        m_byPort[uint64_t{f.src} << 16 | InetSocketAddress::ConvertFrom(name).GetPort()] = i;
        f.mayStart = !m_o.preconnect;
        f.sender->Connect(InetSocketAddress(Ipv4Address(kFirstAddress + f.dst), kPort));
    }

    void Connected(uint32_t i, Ptr<Socket>) {
        m_flows[i].connected = true;
        if (m_flows[i].mayStart) Offer(m_flows[i]);
    }
    void Refused(uint32_t i, Ptr<Socket>) { Fail("flow " + std::to_string(i) + " could not connect"); }
    void StartFlow(uint32_t i) {
        m_flows[i].mayStart = true;
        if (m_flows[i].connected) Offer(m_flows[i]);
    }
    void Offer(Flow& f) {
        if (f.sender->Send(Create<Packet>(f.size)) != static_cast<int>(f.size)) Fail("the send buffer refused a flow");
    }

    // Signature of the `Tx` trace, with the flow bound in front.
    void Transmitted(uint32_t i, Ptr<const Packet> packet, const TcpHeader&, Ptr<const TcpSocketBase>) {
        if (packet->GetSize() == 0) return;
        Flow& f = m_flows[i];
        if (f.dataPacketsSent++ == 0) f.firstDataPs = NowPs();
    }

    void Accepted(Ptr<Socket> socket, const Address& from) {
        InetSocketAddress peer = InetSocketAddress::ConvertFrom(from);
        uint32_t i = m_byPort.at(uint64_t{HostOf(peer.GetIpv4())} << 16 | peer.GetPort());
        m_flows[i].receiver = socket;
        socket->SetRecvCallback(MakeCallback(&Run::Readable, this).Bind(i));
        if (m_o.close) socket->SetCloseCallbacks(MakeCallback(&Run::PeerClosed, this), MakeCallback(&Run::PeerClosed, this));
    }

    void Readable(uint32_t i, Ptr<Socket> socket) {
        Flow& f = m_flows[i];
        while (Ptr<Packet> packet = socket->Recv()) {
            if (packet->GetSize() == 0) break;
            f.received += packet->GetSize();
        }
        if (f.received >= f.size && f.receiverPs < 0) f.receiverPs = NowPs();
    }

    void PeerClosed(Ptr<Socket> socket) { socket->Close(); }

    // Called on every new ACK; the flow has completed when nothing sent is unacknowledged.
    void BufferFreed(uint32_t i, Ptr<Socket> socket, uint32_t available) {
        Flow& f = m_flows[i];
        if (f.senderPs >= 0 || f.dataPacketsSent == 0 || available != kSendBuffer) return;
        f.senderPs = NowPs();
        if (m_o.close) {
            socket->Close();
            f.sender = nullptr;
            f.receiver = nullptr;
        }
        if (++m_completed == m_flows.size()) Simulator::Stop();
    }

    void Hop(Ptr<const Packet> packet) {
        ++m_totals.hops;
        if (packet->GetSize() > 2 + 40 + 12) ++m_totals.dataHops; // more than PPP and headers with SYN options
    }
    void HostDrop(Ptr<const Packet>) { ++m_totals.hostDrops; }
    void SwitchDrop(Ptr<const Packet>) { ++m_totals.switchDrops; }
    void DiscDrop(Ptr<const QueueDiscItem>) { ++m_totals.switchDrops; }

    void WriteResults() const {
        FILE* out = std::fopen(m_o.out.c_str(), "w");
        if (!out) Fail("cannot write " + m_o.out);
        std::fprintf(out, "id,src,dst,size_bytes,start_ps,fct_sender_us,fct_receiver_us,retransmissions,first_data_us\n");
        for (size_t i = 0; i < m_flows.size(); ++i) {
            const Flow& f = m_flows[i];
            auto since = [&](int64_t t) { return t < 0 ? std::string() : Decimal(t - Origin(f)); };
            std::fprintf(out, "%zu,%u,%u,%lu,%ld,%s,%s,%lu,%s\n", i, f.src, f.dst, f.size, f.startPs, since(f.senderPs).c_str(),
                         since(f.receiverPs).c_str(), Retransmissions(f), since(f.firstDataPs).c_str());
        }
        if (std::fclose(out) != 0) Fail("cannot write " + m_o.out);
    }
    static std::string Decimal(int64_t ps) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3f", Us(ps));
        return text;
    }

    static constexpr uint32_t kSendBuffer = 0x7fffffff;
    static constexpr uint16_t kPort = 5000;

    Options m_o;
    Fabric m_fabric;
    std::vector<Flow> m_flows;
    int64_t m_originPs = 0;
    NodeContainer m_nodes;
    std::vector<Ptr<Socket>> m_listeners;
    std::vector<Ptr<MarkingQueue>> m_markingQueues;
    std::vector<Ptr<QueueDisc>> m_discs;
    std::unordered_map<uint64_t, uint32_t> m_byPort;
    Totals m_totals;
    uint32_t m_completed = 0;
    double m_setupCpu = 0;
};

} // namespace

int main(int argc, char** argv) {
    Options options = Parse(argc, argv);
    Run run(options);
    if (!options.dumpFlows.empty()) {
        DumpFlows(options.dumpFlows, run.Flows());
        return 0;
    }
    run.Execute();
    run.Report();
    // Tearing the object graph down serves nothing here and is no part of the figures.
    std::fflush(stdout);
    std::_Exit(0);
}
