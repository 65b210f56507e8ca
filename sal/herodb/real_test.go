//go:build linux

package herodb

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/catalog"
	"writ/sal/netdev"
	"writ/sal/saltest"
)

// smallTrees makes trees of 16 MiB per GiB, at least the pool's minimum of 64 MiB, so that a test reaches the limit.
type smallTrees struct{ sal.Trees }

func (s smallTrees) Make(ctx context.Context, name string, bound sal.Bound) (string, error) {
	bound.Bytes /= 64
	return s.Trees.Make(ctx, name, bound)
}

func (s smallTrees) Keep(ctx context.Context, name string, bound sal.Bound) ([]sal.Drift, error) {
	bound.Bytes /= 64
	return s.Trees.Keep(ctx, name, bound)
}

type overlay netip.Prefix

func (o overlay) Subnet(context.Context) (netip.Prefix, error) { return netip.Prefix(o), nil }
func (o overlay) Address(context.Context) (netip.Addr, error) {
	return netip.Prefix(o).Addr().Next(), nil
}

// makeNetwork gives the driver of a fixture a network driver with the network "front".
func makeNetwork(b *fixture, args map[string]any) *netdev.Driver {
	b.Helper()
	networks := &netdev.Driver{
		Dir: filepath.Join(b.host, "network"), Overlay: overlay(netip.MustParsePrefix("400:cafe:1:1::/64")), Netns: testenv.Netns(b),
		Namespaces: filepath.Join(b.host, "namespaces"),
	}
	b.Networks = networks
	o, _ := catalog.Lookup("network.create")
	request := sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindNetwork, "front"), UID: saltest.RefTo(writ.KindNetwork, "front").UID,
		Args: must(o.DecodeWith(args, nil)), Progress: func(string) {},
	}
	if _, err := networks.Do(b.Context(), request); err != nil {
		b.Fatal(err)
	}
	return networks
}

// hero_redis listens on IPv4 only. A program that ends at once replaces it, because the address is chosen first. With
// the network of the hint, the creation therefore fails with another code.
func TestIPv4EngineNeedsAnIPv4Network(t *testing.T) {
	for _, c := range []struct {
		network map[string]any
		want    writ.Code
	}{
		{nil, writ.CodeArgumentsInvalid},
		{map[string]any{"ipv4": "10.77.0.0/24"}, writ.CodeDriverFailed},
	} {
		b := newFixture(t)
		networks := makeNetwork(b, c.network)
		b.Engines = []string{"hero_redis"}
		b.Look = func(string) (string, error) { return "/bin/true", nil }
		hero := map[string]any{"memory_mib": int64(32), "engines": []any{"hero_redis"}, "network": saltest.RefTo(writ.KindNetwork, "front")}
		e := b.refuse("herodb.create", hero, c.want)
		if got := strings.Contains(e.Hint, "or make the network with ipv4"); got != (c.network == nil) {
			t.Errorf("network %v: hint = %q", c.network, e.Hint)
		}
		if owners, err := networks.Owners(t.Context()); err != nil || len(owners) > 0 {
			t.Errorf("network %v: left are the owners %v, %v", c.network, owners, err)
		}
		if left := traces(t, b.host); len(left) > 0 {
			t.Errorf("network %v: left are %v", c.network, left)
		}
	}
}

// The data is in a subvolume with a quota, and the process in a namespace on a bridge. A client elsewhere on the
// network fills the database, a script gives it more space, and a backup restores its data. Finally the database is
// deleted and must leave nothing.
func TestOnARealDiskAndNetwork(t *testing.T) {
	b := newFixture(t)
	disk := testenv.NewBtrfs(t, filepath.Join(b.host, "pool"), 512)
	t.Cleanup(func() { wipe(t, b.host) }) // before the disk is unmounted
	pool := btrfs.New(btrfs.Config{Dir: disk.Dir})
	b.Trees = smallTrees{pool}
	networks := makeNetwork(b, nil)
	front := saltest.RefTo(writ.KindNetwork, "front")
	web := sal.Owner{Resource: saltest.Resource(writ.KindContainer, "web"), UID: "web"}
	elsewhere, _, err := networks.Namespace(t.Context(), web, []writ.Ref{front})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := networks.Release(context.Background(), web); err != nil {
			t.Error(err)
		}
	})

	persistent := map[string]any{"memory_mib": int64(512), "persist": true, "network": front}
	values := b.do("herodb.create", persistent, writ.ChangeCreated)
	if host, _ := values["host"].(string); !strings.HasPrefix(host, "400:cafe:1:1:ff0f:") || values["port"] != int64(networkPort) {
		t.Errorf("it listens on %v", values["address"])
	}
	dial := func() *client {
		t.Helper()
		var conn net.Conn
		address, _ := values["address"].(string)
		if err := inside(elsewhere, func() (err error) {
			conn, err = net.DialTimeout("tcp", address, answerTime)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		c := &client{conn, bufio.NewReader(conn)}
		t.Cleanup(c.close)
		b.ask(c, "AUTH", b.secret())
		return c
	}
	c := dial()
	b.ask(c, "SET", "a", "before")
	b.do("herodb.backup", nightly, writ.ChangeUpdated)
	value, n := strings.Repeat("x", 1<<20), 0
	b.until("the quota is reached", func() bool {
		for ; n%8 != 7; n++ {
			if _, err := c.ask(t.Context(), "SET", strconv.Itoa(n), value); refused(err, "MISCONF") {
				return true
			}
		}
		n++
		return false
	})
	if drift := b.keep(); len(drift) != 1 || !strings.Contains(drift[0].What, "disk is full") {
		t.Errorf("it says %+v", drift)
	}
	b.do("herodb.create", with(persistent, "size_gib", int64(8)), writ.ChangeUpdated)
	b.until("it writes again", func() bool {
		_, err := c.ask(t.Context(), "SET", "a", "after")
		return err == nil
	})
	b.do("herodb.restore", nightly, writ.ChangeUpdated)
	if v := b.ask(dial(), "GET", "a"); v != "before" {
		t.Errorf("restored it has %v", v)
	}
	if u, err := b.Usage(t.Context(), store); err != nil || u.Received < 1<<20 || u.Sent == 0 || u.DiskGiB != 8 {
		t.Errorf("it uses %+v, %v", u, err)
	}
	if drift := b.keep(); len(drift) != 0 {
		t.Errorf("it says %+v", drift)
	}

	// The counters of its interface continue after the end of its process: a zero would make the next reading count
	// everything twice.
	if err := jobOn(b.Driver, store).end(t.Context(), must(b.records().Get(store)).Own, grace); err != nil {
		t.Fatal(err)
	}
	if u, err := b.Usage(t.Context(), store); err != nil || u.Received < 1<<20 || u.MemoryMiB != 0 {
		t.Errorf("without a process it uses %+v, %v", u, err)
	}

	// As after a reboot: no process and no namespace. The database returns with the same address.
	wipe(t, b.host)
	path, _, err := jobOn(b.Driver, store).namespace(t.Context(), must(b.records().Get(store)))
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	if drift := b.keep(); len(drift) != 1 || !drift[0].Mended {
		t.Errorf("it says %+v", drift)
	}
	if same, err := sameNamespace(path, namespaceOf(b.pid())); !same || err != nil {
		t.Errorf("it is not in its namespace: %v", err)
	}
	if v := b.ask(dial(), "GET", "a"); v != "before" {
		t.Errorf("a = %v after a restart", v)
	}

	b.do("herodb.delete", nil, writ.ChangeDeleted)
	trees, err := pool.List(t.Context())
	if err != nil || len(trees) > 0 {
		t.Errorf("left are the trees %v, %v", trees, err)
	}
	owners, err := networks.Owners(t.Context())
	if err != nil || len(owners) != 1 || owners[0].UID != web.UID {
		t.Errorf("left are the owners %v, %v", owners, err)
	}
	if left := traces(t, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
