// Package myceliumstub is a stub of the mycelium daemon for tests. It has the same command line, network interface,
// addresses and REST API, but peers communicate over UDP IN PLAIN TEXT and trust each other completely. It must never
// carry real traffic. It was written from knowledge of the daemon, independently of the code that it tests.
package myceliumstub

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/bits"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"lukechampine.com/blake3"
)

// Warning is shown in all outputs of the stub.
const Warning = "THIS IS A STUB OF MYCELIUM FOR TESTS: IT DOES NOT ENCRYPT AND TRUSTS EVERY PEER"

// version is the simulated version of the daemon.
const version = "0.7.10"

// mtu is the MTU of the daemon's interface.
const mtu = 1400

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

// Main is the main function of the program. It returns the exit code after ctx has ended or after an error.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	for _, a := range args {
		if a == "--help" || a == "-h" {
			fmt.Fprint(stdout, help)
			return 0
		}
		if a == "--version" || a == "-V" {
			fmt.Fprintln(stdout, "mycelium", version)
			return 0
		}
	}
	o, err := parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 2 // same code as the daemon, which makes a supervisor restart it in a loop
	}
	if err := run(ctx, o, stdout, slog.New(slog.NewTextHandler(stderr, nil))); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		if errors.As(err, new(panicked)) {
			return 101
		}
		return 1
	}
	return 0
}

// panicked is an error that makes the daemon panic.
type panicked struct{ cause error }

func (p panicked) Error() string { return "Failed to build JSON-RPC server: " + p.cause.Error() }

// daemon is a running stub.
type daemon struct {
	options
	log     *slog.Logger
	began   time.Time
	public  []byte
	address netip.Addr
	tun     *os.File // nil without an interface
	wire    *net.UDPConn

	asked  sync.Mutex // serialises API requests
	mu     sync.Mutex // guards the following fields
	peers  map[netip.AddrPort]*peer
	routes map[netip.Addr]route
}

func run(ctx context.Context, o options, stdout io.Writer, log *slog.Logger) error {
	key, err := loadKey(o.key, !o.inspect)
	if err != nil {
		return err
	}
	d := &daemon{
		options: o, log: log, began: time.Now(), public: key.PublicKey().Bytes(), peers: map[netip.AddrPort]*peer{},
		routes: map[netip.Addr]route{},
	}
	d.address = addressOf(d.public)
	if o.inspect {
		if o.json {
			fmt.Fprintf(stdout, "{\n  \"publicKey\": \"%x\",\n  \"address\": \"%s\"\n}\n", d.public, d.address)
		} else {
			fmt.Fprintf(stdout, "Public key: %x\nAddress: %s\n", d.public, d.address)
		}
		return nil
	}
	log.Warn(Warning)
	for _, p := range o.at {
		d.peers[p.address] = &peer{kind: "static", proto: p.proto}
	}
	if d.wire, err = net.ListenUDP("udp", &net.UDPAddr{Port: o.port}); err != nil {
		return err
	}
	defer d.wire.Close()
	rpc, err := net.Listen("tcp", o.rpc)
	if err != nil {
		return panicked{err}
	}
	defer rpc.Close()
	if !o.noTun {
		if d.tun, err = makeTun(o.tun, d.address); err != nil {
			return err
		}
		defer d.tun.Close()
	}
	log.Info("stub of mycelium runs", "address", d.address, "public_key", hex.EncodeToString(d.public), "port", o.port)
	return d.serve(ctx)
}

// serve routes packets until ctx ends.
func (d *daemon) serve(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	api := &http.Server{Handler: d.api()}
	if l, err := net.Listen("tcp", d.options.api); err != nil {
		d.log.Error("API disabled", "err", err) // like the real daemon, the stub continues
	} else {
		all.Go(func() { _ = api.Serve(l) })
	}
	all.Go(func() { d.fromWire() })
	all.Go(func() { d.greet(ctx) })
	if d.tun != nil {
		all.Go(func() { d.fromTun() })
	}
	if !d.noDiscovery {
		all.Go(func() { d.discover(ctx) })
	}
	<-ctx.Done()
	_ = api.Close()
	_ = d.wire.Close()
	if d.tun != nil {
		_ = d.tun.Close()
	}
	return nil
}

// loadKey reads a key. If the file is missing and make is set, it generates one.
func loadKey(path string, make bool) (*ecdh.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && make {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		return key, os.WriteFile(path, key.Bytes(), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return ecdh.X25519().NewPrivateKey(text)
}

// addressOf returns the address of a public key.
func addressOf(public []byte) netip.Addr {
	h := blake3.New(16, nil)
	_, _ = h.Write(public)
	sum := h.Sum(nil)
	sum[0] = 0x04 | byte(bits.OnesCount(uint(sum[0]))%2)
	a, _ := netip.AddrFromSlice(sum)
	return a
}

// subnetOf returns the /64 of an address.
func subnetOf(a netip.Addr) netip.Addr { return netip.PrefixFrom(a, 64).Masked().Addr() }

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

// makeTun makes the interface, which exists until its file is closed.
func makeTun(name string, address netip.Addr) (*os.File, error) {
	l := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TUN,
		Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_TUN_EXCL, Queues: 1, NonPersist: true,
	}
	if err := netlink.LinkAdd(l); err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := l.Fds[0]
	own := &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(7, 128)}}
	for _, err := range []error{netlink.LinkSetMTU(l, mtu), netlink.AddrAdd(l, own), netlink.LinkSetUp(l)} {
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}
