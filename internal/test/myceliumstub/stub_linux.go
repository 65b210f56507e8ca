// Package myceliumstub is a stub of the mycelium daemon for tests. It has the same command line, network interface,
// addresses and REST API, but peers communicate over UDP IN PLAIN TEXT and trust each other completely. It must never
// carry real traffic. It was written from knowledge of the daemon, independently of the code that it tests.
package myceliumstub

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
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

// daemon is a running stub: it carries packets between the interface of this host and its peers.
type daemon struct {
	options
	log     *slog.Logger
	public  []byte
	address netip.Addr
	tun     *os.File // nil without an interface
	wire    *net.UDPConn
	table   *table
}

func run(ctx context.Context, o options, stdout io.Writer, log *slog.Logger) error {
	key, err := loadKey(o.key, !o.inspect)
	if err != nil {
		return err
	}
	d := &daemon{options: o, log: log, public: key.PublicKey().Bytes()}
	d.address = addressOf(d.public)
	d.table = newTable(subnetOf(d.address), o.noQUIC)
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
		d.table.add(p.address, peer{kind: "static", proto: p.proto})
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
	rest := &api{began: time.Now(), public: d.public, address: d.address, table: d.table}
	server := &http.Server{Handler: rest.handler()}
	if l, err := net.Listen("tcp", d.api); err != nil {
		d.log.Error("API disabled", "err", err) // like the real daemon, the stub continues
	} else {
		all.Go(func() { _ = server.Serve(l) })
	}
	all.Go(func() { d.fromWire() })
	all.Go(func() { d.greet(ctx) })
	if d.tun != nil {
		all.Go(func() { d.fromTun() })
	}
	if !d.noDiscovery {
		finder := &discovery{
			options: d.options, log: d.log, table: d.table,
			beacon: append(binary.BigEndian.AppendUint16([]byte(magic), uint16(d.port)), d.public...),
		}
		all.Go(func() { finder.run(ctx) })
	}
	<-ctx.Done()
	_ = server.Close()
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
