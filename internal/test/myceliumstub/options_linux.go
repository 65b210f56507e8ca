package myceliumstub

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const help = Warning + `

usage: mycelium [flags]            carry packets
       mycelium inspect [--json]   show key and address

  -k, --key-file PATH         private key of 32 bytes, made if it is missing (required: the stub has no default)
      --peers ENDPOINT...     tcp://IP:PORT or quic://IP:PORT; both are UDP here. By QUIC no packet passes that has 1388 bytes or more: the peer is
                              dropped for some seconds instead, as the daemon does
      --disable-quic          neither dial nor accept QUIC connections
      --disable-peer-discovery, --peer-discovery-port PORT
                              do not look for others on the wire, or there (default 9650)
      --peer-discovery-interface NAME
                              look for others on this interface only (repeatable)
  -t, --tcp-listen-port PORT  UDP port for peers (default 9651)
      --api-addr ADDR         of the REST API (default 127.0.0.1:8989)
      --tun-name NAME         of the interface (default mycelium)
      --no-tun                make no interface
      --jsonrpc-addr ADDR     of the JSON-RPC API, which answers nothing here (default 127.0.0.1:8990)
taken and ignored: --quic-listen-port, --log-format, --silent, -d
`

// options are the options of the command line.
type options struct {
	inspect, json, noTun bool
	noQUIC, noDiscovery  bool
	key, api, rpc, tun   string
	port, discovery      int
	peers                []string
	at                   []place // addresses of the peers
	discoverOn           []string
}

// parse parses a command line like the daemon.
func parse(args []string) (o options, err error) {
	o = options{api: "127.0.0.1:8989", rpc: "127.0.0.1:8990", tun: "mycelium", port: 9651, discovery: 9650}
	for i := 0; i < len(args); i++ {
		value := func() string {
			if i+1 == len(args) {
				err = errors.Join(err, fmt.Errorf("a value is required for '%s'", args[i]))
				return ""
			}
			i++
			return args[i]
		}
		switch args[i] {
		case "inspect":
			o.inspect = true
		case "--json":
			o.json = true
		case "--no-tun":
			o.noTun = true
		case "-k", "--key-file":
			o.key = value()
		case "--api-addr":
			o.api = value()
		case "--jsonrpc-addr":
			o.rpc = value()
		case "--tun-name":
			o.tun = value()
		case "-t", "--tcp-listen-port":
			port, wrong := strconv.Atoi(value())
			o.port, err = port, errors.Join(err, wrong)
		case "--peers":
			o.peers = append(o.peers, value())
			for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				o.peers = append(o.peers, value())
			}
		case "--peer-discovery-port":
			port, wrong := strconv.Atoi(value())
			o.discovery, err = port, errors.Join(err, wrong)
		case "--peer-discovery-interface":
			o.discoverOn = append(o.discoverOn, value())
		case "--disable-quic":
			o.noQUIC = true
		case "--disable-peer-discovery":
			o.noDiscovery = true
		case "--quic-listen-port", "--log-format":
			value()
		case "--silent", "-d":
		default:
			return o, fmt.Errorf("unexpected argument '%s'", args[i])
		}
	}
	for _, p := range o.peers {
		at, wrong := endpoint(p)
		o.at, err = append(o.at, at), errors.Join(err, wrong)
	}
	if o.key == "" {
		err = errors.Join(err, errors.New("the stub needs --key-file"))
	}
	return o, err
}

// place is the address of a peer with its protocol.
type place struct {
	proto   string
	address netip.AddrPort
}

// endpoint parses an endpoint such as "tcp://192.0.2.1:9651". Like the daemon, it accepts no interface names.
func endpoint(text string) (place, error) {
	proto, at, found := strings.Cut(text, "://")
	switch {
	case !found:
		return place{}, errors.New("missing leading protocol identifier")
	case proto != "tcp" && proto != "quic" && proto != "tls":
		return place{}, errors.New("protocol for endpoint is not supported")
	}
	address, err := netip.ParseAddrPort(at)
	if err != nil || strings.ContainsFunc(address.Addr().Zone(), func(r rune) bool { return r < '0' || r > '9' }) {
		return place{}, errors.New("failed to parse address: invalid socket address syntax")
	}
	return place{proto, address}, nil
}
