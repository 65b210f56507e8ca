package myceliumstub

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"writ/internal/sleep"
)

// group is the multicast address of beacons. A beacon has the magic, the port and the public key of its sender.
var group = net.ParseIP("ff02::cafe")

const (
	magic      = "mycelium"
	beaconSize = len(magic) + 2 + 32
	beaconEach = 200 * time.Millisecond // the real daemon sends one beacon per minute
)

// discovery finds peers on the links of this host and announces this daemon.
type discovery struct {
	options
	log    *slog.Logger
	beacon []byte
	table  *table
}

// run searches until ctx ends.
func (d *discovery) run(ctx context.Context) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{Port: d.discovery})
	if err != nil {
		d.log.Error("discovery disabled", "err", err) // like the real daemon, the stub continues
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	go d.announce(ctx, conn)
	b := make([]byte, beaconSize+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if n != beaconSize || !bytes.HasPrefix(b, []byte(magic)) || bytes.Equal(b[len(magic)+2:n], d.beacon[len(magic)+2:]) {
			continue
		}
		at := netip.AddrPortFrom(from.Addr(), binary.BigEndian.Uint16(b[len(magic):]))
		d.table.add(at, peer{kind: "linkLocalDiscovery", proto: "tcp"})
	}
}

// announce sends the beacon on every link until ctx ends.
func (d *discovery) announce(ctx context.Context, conn *net.UDPConn) {
	joined := map[int]bool{}
	sleep.Every(ctx, beaconEach, func(context.Context) {
		links, _ := net.Interfaces() // after an error, the next round retries
		for _, l := range links {
			if l.Flags&(net.FlagUp|net.FlagMulticast|net.FlagLoopback) != net.FlagUp|net.FlagMulticast ||
				l.Name == d.tun || hardware(l.Name) || !d.searches(l.Name) {
				continue
			}
			if !joined[l.Index] {
				joined[l.Index] = join(conn, l.Index) == nil
			}
			// The link may have disappeared.
			_, _ = conn.WriteToUDP(d.beacon, &net.UDPAddr{IP: group, Port: d.discovery, Zone: l.Name})
		}
	})
}

// searches reports whether the command line allows the search for peers on an interface.
func (d *discovery) searches(link string) bool {
	return len(d.discoverOn) == 0 || slices.Contains(d.discoverOn, link)
}

// hardware reports whether a link leads out of this host. The stub sends no beacons there, because it trusts every
// peer.
func hardware(link string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", link, "device"))
	return err == nil
}

// join makes a socket receive the multicast group on an interface.
func join(conn *net.UDPConn, link int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	request := &unix.IPv6Mreq{Multiaddr: [16]byte(group), Interface: uint32(link)}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, request)
	})
	return errors.Join(err, failed)
}
