// A fat tree in ns-3 with the flows and the ways that a file gives: what benches/fat_tree_ns3/run.py
// compares us with. Each line of the file is a flow: start [ns], bytes, and the nodes on its way, by number.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/resource.h>
#include <vector>

using namespace ns3;

// Server ports of flows begin here: a port names a flow.
static const uint16_t FIRST_PORT = 1000;

// Static routes by flow, in a table: the flow is the server's port, the direction is who has it.
class FlowRouting : public Ipv4RoutingProtocol {
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("FlowRouting").SetParent<Ipv4RoutingProtocol>();
        return id;
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>,
                               Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        return Route(header, 1); // A host has one link.
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice> device,
                    UnicastForwardCallback forward, MulticastForwardCallback, LocalDeliverCallback local,
                    ErrorCallback) override
    {
        uint32_t interface = m_ipv4->GetInterfaceForDevice(device);
        if (m_ipv4->IsDestinationAddress(header.GetDestination(), interface)) {
            local(packet, header, interface);
            return true;
        }
        TcpHeader tcp;
        packet->PeekHeader(tcp);
        auto found = towards.find(tcp.GetDestinationPort());
        bool forth = found != towards.end() && found->second.first == header.GetDestination();
        uint32_t out = forth ? found->second.second.first : towards.at(tcp.GetSourcePort()).second.second;
        forward(Route(header, out), packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

    // By port: where the flow goes, and the interfaces of its data and of its ACKs.
    std::map<uint16_t, std::pair<Ipv4Address, std::pair<uint32_t, uint32_t>>> towards;

  private:
    Ptr<Ipv4Route> Route(const Ipv4Header& header, uint32_t interface)
    {
        Ptr<Ipv4Route> route = Create<Ipv4Route>();
        route->SetDestination(header.GetDestination());
        route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        route->SetGateway(header.GetDestination());
        route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
        return route;
    }

    Ptr<Ipv4> m_ipv4;
};

struct Flow {
    uint64_t start_ns, bytes;
    std::vector<uint32_t> way;
};

static double cpu()
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_utime.tv_sec + r.ru_stime.tv_sec + 1e-6 * (r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static uint64_t hops = 0;
static void count_hop(Ptr<const Packet>) { hops++; }

int main(int argc, char** argv)
{
    std::string file;
    double milliseconds = 10;
    bool count = false;
    CommandLine cmd;
    cmd.AddValue("flows", "file of flows", file);
    cmd.AddValue("ms", "virtual time", milliseconds);
    cmd.AddValue("count", "count hops", count);
    cmd.Parse(argc, argv);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpCubic"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    std::vector<Flow> flows;
    std::map<std::pair<uint32_t, uint32_t>, bool> links;
    uint32_t nodes = 0;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        Flow flow;
        words >> flow.start_ns >> flow.bytes;
        for (uint32_t node; words >> node;) {
            if (!flow.way.empty()) {
                links[std::minmax(flow.way.back(), node)] = true;
            }
            flow.way.push_back(node);
            nodes = std::max(nodes, node + 1);
        }
        flows.push_back(flow);
    }
    NodeContainer all;
    all.Create(nodes);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.Install(all);
    std::vector<Ptr<FlowRouting>> routing;
    for (uint32_t i = 0; i < nodes; i++) {
        routing.push_back(CreateObject<FlowRouting>());
        all.Get(i)->GetObject<Ipv4>()->SetRoutingProtocol(routing[i]);
    }
    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    wire.SetChannelAttribute("Delay", StringValue("1us"));
    wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    TrafficControlHelper queues;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> interface;
    for (auto& [ends, _] : links) {
        auto devices = wire.Install(all.Get(ends.first), all.Get(ends.second));
        auto given = addresses.Assign(devices);
        addresses.NewNetwork();
        queues.Uninstall(devices);
        interface[ends] = given.Get(0).second;
        interface[{ends.second, ends.first}] = given.Get(1).second;
        for (uint32_t k = 0; count && k < 2; k++) {
            devices.Get(k)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&count_hop));
        }
    }
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows.size(); i++) {
        const Flow& flow = flows[i];
        uint16_t port = FIRST_PORT + i;
        auto ipv4 = all.Get(flow.way.back())->GetObject<Ipv4>();
        Ipv4Address to = ipv4->GetAddress(1, 0).GetLocal();
        for (uint32_t k = 1; k + 1 < flow.way.size(); k++) {
            uint32_t here = flow.way[k];
            uint32_t forth = interface.at({here, flow.way[k + 1]}), back = interface.at({here, flow.way[k - 1]});
            routing[here]->towards[port] = {to, {forth, back}};
        }
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        auto sunk = sink.Install(all.Get(flow.way.back()));
        sunk.Start(Seconds(0));
        sinks.push_back(DynamicCast<PacketSink>(sunk.Get(0)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(to, port));
        bulk.SetAttribute("MaxBytes", UintegerValue(flow.bytes));
        bulk.SetAttribute("SendSize", UintegerValue(65536));
        bulk.Install(all.Get(flow.way.front())).Start(NanoSeconds(flow.start_ns));
    }
    Simulator::Stop(Seconds(milliseconds / 1e3));
    double before = cpu();
    Simulator::Run();
    double after = cpu();
    uint64_t delivered = 0;
    for (auto& sink : sinks) {
        delivered += sink->GetTotalRx();
    }
    printf("{\"cpu_seconds\": %.3f, \"delivered_bytes\": %llu, \"hops\": %llu}\n", after - before,
           (unsigned long long)delivered, (unsigned long long)hops);
    Simulator::Destroy();
    return 0;
}
