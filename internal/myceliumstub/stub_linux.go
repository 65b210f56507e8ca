// Package myceliumstub stands in for the daemon of mycelium in tests: it takes the same command line, makes the same network interface, has
// the same addresses and answers the same REST API, but peers speak UDP with each other IN PLAIN TEXT, and believe each other everything. It must
// never carry what matters to anybody. It is written from what is known of the daemon, and not with what it is to test.
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

// Warning is what the stub says of itself wherever it can.
const Warning = "THIS IS A STUB OF MYCELIUM FOR TESTS: IT ENCRYPTS NOTHING AND BELIEVES EVERYBODY"

// version is whose behaviour the stub has.
const version = "0.7.10"

// mtu is that of the daemon's interface.
const mtu = 1400

const help = Warning + `

usage: mycelium [flags]            carry packets
       mycelium inspect [--json]   show key and address

  -k, --key-file PATH         private key of 32 bytes, made if it is missing (required: the stub has no default)
      --peers ENDPOINT...     tcp://IP:PORT or quic://IP:PORT; both are UDP here
  -t, --tcp-listen-port PORT  UDP port for peers (default 9651)
      --api-addr ADDR         of the REST API (default 127.0.0.1:8989)
      --tun-name NAME         of the interface (default mycelium)
      --no-tun                make no interface
      --jsonrpc-addr ADDR     of the JSON-RPC API, which answers nothing here (default 127.0.0.1:8990)
taken and ignored: --quic-listen-port, --disable-quic, --peer-discovery-port, --disable-peer-discovery, --log-format, --silent, -d
`

// options are what the command line says.
type options struct {
	inspect, json, noTun bool
	key, api, rpc, tun   string
	port                 int
	peers                []string
}

// parse reads a command line as the daemon does.
func parse(args []string) (o options, err error) {
	o = options{api: "127.0.0.1:8989", rpc: "127.0.0.1:8990", tun: "mycelium", port: 9651}
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
		case "--quic-listen-port", "--peer-discovery-port", "--log-format":
			value()
		case "--disable-quic", "--disable-peer-discovery", "--silent", "-d":
		default:
			return o, fmt.Errorf("unexpected argument '%s'", args[i])
		}
	}
	if o.key == "" {
		err = errors.Join(err, errors.New("the stub needs --key-file"))
	}
	return o, err
}

// Main is the program: it returns its exit code when ctx has ended, or when it cannot go on.
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
		return 2 // as the daemon, which then ends in a loop of whoever starts it again
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

// panicked is the error over which the daemon does not end in order.
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

	asked  sync.Mutex // one question of the API is answered after the other
	mu     sync.Mutex // guards what is below
	peers  map[netip.AddrPort]*peer
	routes map[netip.Addr]route
}

func run(ctx context.Context, o options, stdout io.Writer, log *slog.Logger) error {
	key, err := loadKey(o.key, !o.inspect)
	if err != nil {
		return err
	}
	d := &daemon{options: o, log: log, began: time.Now(), public: key.PublicKey().Bytes(), peers: map[netip.AddrPort]*peer{}, routes: map[netip.Addr]route{}}
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
	for _, p := range o.peers {
		at, err := endpoint(p)
		if err != nil {
			return err
		}
		d.peers[at] = &peer{kind: "static"}
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

// serve carries packets until ctx ends.
func (d *daemon) serve(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	api := &http.Server{Handler: d.api()}
	if l, err := net.Listen("tcp", d.options.api); err != nil {
		d.log.Error("API disabled", "err", err) // and it goes on, as the daemon does
	} else {
		all.Go(func() { _ = api.Serve(l) })
	}
	all.Go(func() { d.fromWire() })
	all.Go(func() { d.greet(ctx) })
	if d.tun != nil {
		all.Go(func() { d.fromTun() })
	}
	<-ctx.Done()
	_ = api.Close()
	_ = d.wire.Close()
	if d.tun != nil {
		_ = d.tun.Close()
	}
	return nil
}

// loadKey reads a key, or makes one if it may.
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

// addressOf is the address of a public key.
func addressOf(public []byte) netip.Addr {
	h := blake3.New(16, nil)
	_, _ = h.Write(public)
	sum := h.Sum(nil)
	sum[0] = 0x04 | byte(bits.OnesCount(uint(sum[0]))%2)
	a, _ := netip.AddrFromSlice(sum)
	return a
}

// subnetOf is the /64 of an address.
func subnetOf(a netip.Addr) netip.Addr { return netip.PrefixFrom(a, 64).Masked().Addr() }

// endpoint reads "tcp://192.0.2.1:9651".
func endpoint(text string) (netip.AddrPort, error) {
	proto, at, found := strings.Cut(text, "://")
	switch {
	case !found:
		return netip.AddrPort{}, errors.New("missing leading protocol identifier")
	case proto != "tcp" && proto != "quic":
		return netip.AddrPort{}, errors.New("protocol for endpoint is not supported")
	}
	address, err := netip.ParseAddrPort(at)
	if err != nil {
		return netip.AddrPort{}, errors.New("failed to parse address: invalid socket address syntax")
	}
	return address, nil
}

// makeTun makes the interface, which ends with its file.
func makeTun(name string, address netip.Addr) (*os.File, error) {
	l := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_TUN_EXCL, Queues: 1, NonPersist: true}
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
