//go:build linux

package herodb

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
)

// plainNetworks are namespaces with an address on their loopback interface, unreachable from outside.
type plainNetworks struct{ tag string } // unique for each test

// networksOf returns the networks of a host. It skips the test where namespaces cannot be made.
func networksOf(t testing.TB, host string) plainNetworks {
	t.Helper()
	h := fnv.New32a()
	h.Write([]byte(host))
	return plainNetworks{fmt.Sprintf("wt%08x", h.Sum32())}
}

// needNamespaces skips the test where network namespaces cannot be made.
func needNamespaces(t testing.TB) {
	t.Helper()
	testenv.Need(t, "ip")
	testenv.Netns(t)
}

func (n plainNetworks) name(owner sal.Owner) string {
	return n.tag + "-" + owner.Resource.HostName()
}

func (n plainNetworks) Taps(context.Context, sal.Owner, []writ.Ref) ([]sal.Port, error) {
	return nil, errors.New("databases have no taps")
}

func (n plainNetworks) Namespace(_ context.Context, owner sal.Owner, networks []writ.Ref) (string, []sal.Port, error) {
	name := n.name(owner)
	path := filepath.Join("/run/netns", name)
	h := fnv.New64a()
	h.Write([]byte(owner.UID))
	v := h.Sum64()
	address := netip.AddrFrom16([16]byte{0x04, 0, 0xaa, 8: byte(v), 9: byte(v >> 8), 10: byte(v >> 16), 11: byte(v >> 24), 15: 1})
	if _, err := os.Stat(path); err != nil {
		program, err := testenv.Path("ip")
		if err != nil {
			return "", nil, err
		}
		for _, args := range [][]string{
			{"netns", "add", name},
			{"-n", name, "link", "set", "lo", "up"},
			{"-n", name, "addr", "add", address.String() + "/128", "dev", "lo", "nodad"},
		} {
			if said, err := exec.Command(program, args...).CombinedOutput(); err != nil {
				return "", nil, fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, said)
			}
		}
	}
	port := sal.Port{Network: writ.ResourceID{Project: owner.Resource.Project, Kind: writ.KindNetwork, Name: networks[0].Name}, Device: "lo",
		IPv6: netip.PrefixFrom(address, 96)}
	return path, []sal.Port{port}, nil
}

func (n plainNetworks) Release(_ context.Context, owner sal.Owner) error {
	if _, err := os.Stat(filepath.Join("/run/netns", n.name(owner))); err != nil {
		return nil
	}
	program, err := testenv.Path("ip")
	if err != nil {
		return err
	}
	said, err := exec.Command(program, "netns", "delete", n.name(owner)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip netns delete: %w: %s", err, said)
	}
	return nil
}

func (n plainNetworks) Owners(context.Context) ([]sal.Owner, error) { return nil, nil }

// all returns the names of the namespaces.
func (n plainNetworks) all(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob("/run/netns/" + n.tag + "-*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wipe removes everything that drivers made on a host outside of its directory.
func wipe(t testing.TB, host string) {
	t.Helper()
	for _, p := range processesOf(t, host) {
		if err := signal(p.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for now, err := look(p.PID); err == nil && now.pid == p.pid && !now.dead; now, err = look(p.PID) {
			runtime.Gosched()
		}
	}
	for _, path := range networksOf(t, host).all(t) {
		if said, err := exec.Command(testenv.Need(t, "ip"), "netns", "delete", filepath.Base(path)).CombinedOutput(); err != nil {
			t.Errorf("ip netns delete: %v: %s", err, said)
		}
	}
	groups := groupsOf(filepath.Join(host, "herodb"))
	all, err := groups.All()
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if err := groups.Remove(context.Background(), name); err != nil {
			t.Error(err)
		}
	}
}

// traces returns everything that drivers have on a host outside of its directory.
func traces(t testing.TB, host string) []string {
	t.Helper()
	var all []string
	for _, p := range processesOf(t, host) {
		all = append(all, fmt.Sprintf("process %d: %s", p.PID, p.args))
	}
	groups, err := groupsOf(filepath.Join(host, "herodb")).All()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.AppendSeq(all, maps.Values(groups))
	return append(all, networksOf(t, host).all(t)...)
}

// processesOf returns the processes that have a path of the host among their arguments.
func processesOf(t testing.TB, host string) []process {
	t.Helper()
	all, err := processesWith(host + "/")
	if err != nil {
		t.Fatal(err)
	}
	return all
}
