package journal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

var twoPorts = []placement.Port{{Protocol: "tcp", Number: 8080}, {Protocol: "udp", Number: 53}}

// publishing returns a container on a node that requests a TCP port and has a UDP port.
func publishing(name string, node writ.NodeID, tcp, udp int64) *journal.Resource {
	r := &journal.Resource{Operation: "container.create"}
	r.ResourceID = writ.ResourceID{Project: "p", Kind: writ.KindContainer, Name: name}
	r.Node = node
	r.Args = map[string]any{"publish": []any{map[string]any{"port": tcp, "to": int64(80), "share": string(node)}}}
	r.Values = map[string]any{"published": []any{map[string]any{"port": udp, "to": int64(53), "protocol": "udp"}}}
	return r
}

// scanned returns the users of ports by reading all resources.
func scanned(tx *journal.Tx, ports []placement.Port) (users []published.User, err error) {
	all, err := tx.Resources()
	for _, r := range all {
		for _, p := range ports {
			n, share := r.Args["publish"].([]any)[0].(map[string]any)["port"], string(r.Node)
			if p.Protocol == "udp" {
				share = ""
				n = r.Values["published"].([]any)[0].(map[string]any)["port"]
			}
			if r.Node != "" && n == p.Number {
				asked := placement.PortRequest{Port: p, Share: share}
				users = append(users, published.User{PortRequest: asked, ResourceID: r.ResourceID, Node: r.Node})
			}
		}
	}
	slices.SortFunc(users, func(a, b published.User) int {
		return cmp.Or(a.ResourceID.Compare(b.ResourceID), cmp.Compare(a.Number, b.Number))
	})
	return users, err
}

// checkPorts compares the users of ports with a scan.
func checkPorts(tx *journal.Tx) error {
	want, err := scanned(tx, twoPorts)
	if err != nil {
		return err
	}
	got, err := journal.UsersOfPorts(tx, twoPorts)
	if diff := gocmp.Diff(want, got); err == nil && diff != "" {
		err = fmt.Errorf("the users of the ports (-want +got):\n%s", diff)
	}
	return err
}

var errUndone = errors.New("the change is undone")

// TestUsersOfPortsEqualScan makes random changes in concurrent transactions, some of which fail, so that their commits
// are repeated without them. Each transaction compares the users of two ports with a scan of all resources.
func TestUsersOfPortsEqualScan(t *testing.T) {
	testenv.CheckProperty(t, func(r *rapid.T) {
		j, err := journal.Open(t.Context(), ":memory:")
		if err != nil {
			r.Fatal(err)
		}
		defer j.Close()
		if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
			r.Fatal(err)
		}
		change := rapid.Custom(func(r *rapid.T) func(tx *journal.Tx) error {
			p := publishing(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name"),
				rapid.SampledFrom([]writ.NodeID{"", "n1", "n2"}).Draw(r, "node"),
				rapid.SampledFrom([]int64{0, 8080, 8081}).Draw(r, "tcp"), rapid.SampledFrom([]int64{0, 53}).Draw(r, "udp"))
			remove, check, undone := rapid.Bool().Draw(r, "remove"), rapid.Bool().Draw(r, "check"), rapid.Bool().Draw(r, "undone")
			return func(tx *journal.Tx) error {
				write := tx.PutResource
				if remove {
					write = func(p *journal.Resource) error { return tx.RemoveResource(p.ResourceID) }
				}
				if err := write(p); err != nil {
					return err
				}
				if check {
					if err := checkPorts(tx); err != nil {
						return err
					}
				}
				if undone {
					return errUndone
				}
				return nil
			}
		})
		for range rapid.IntRange(1, 4).Draw(r, "rounds") {
			var all sync.WaitGroup
			for _, do := range rapid.SliceOfN(change, 1, 6).Draw(r, "changes") {
				all.Go(func() {
					if err := j.Write(t.Context(), do); err != nil && !errors.Is(err, errUndone) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for name, run := range map[string]func(context.Context, func(*journal.Tx) error) error{"writer": j.Write, "reader": j.Read} {
				if err := run(t.Context(), checkPorts); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	})
}

func TestNextEpochReadsPortsAgain(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		first := open(t, path)
		if _, err := first.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		write(t, first, func(tx *journal.Tx) error { return tx.PutResource(publishing("a", "n1", 8080, 53)) })
		write(t, first, checkPorts)
		other := steal(t, path)
		write(t, other, checkPorts)
		write(t, other, func(tx *journal.Tx) error {
			if err := tx.RemoveResource(publishing("a", "", 0, 0).ResourceID); err != nil {
				return err
			}
			return tx.PutResource(publishing("b", "n2", 8080, 0))
		})
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := first.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		write(t, first, checkPorts)
	})
}

// A run that waits for a port is placed again every second, in the transaction of all projects.
//
// Promise: Speed and storage: A step reads only the users of the ports that its calls publish, and not all resources of
// all nodes.
// How: The writer of the journal keeps an index of published ports in memory. It reads the resources of failed writes
// again, and all resources after a takeover.
// Also: TestUsersOfPortsEqualScan, TestNextEpochReadsPortsAgain.
func TestUsersOfPortsAreReadOnce(t *testing.T) {
	cost := func(n int) float64 {
		j := open(t, filepath.Join(t.TempDir(), "journal"))
		if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		write(t, j, func(tx *journal.Tx) error {
			for i := range n {
				if err := tx.PutResource(publishing(fmt.Sprint("box-", i), writ.NodeID(fmt.Sprint("n", i)), int64(8080+i), 0)); err != nil {
					return err
				}
			}
			return nil
		})
		write(t, j, checkPorts)
		return testing.AllocsPerRun(10, func() {
			write(t, j, func(tx *journal.Tx) error {
				users, err := journal.UsersOfPorts(tx, twoPorts)
				if len(users) != 1 || users[0].Node != "n0" {
					t.Errorf("the users are %v", users)
				}
				return err
			})
		})
	}
	if few, many := cost(10), cost(1000); many > 2*few {
		t.Errorf("reading the users of a port takes %.0f allocations with 10 resources, %.0f with 1000", few, many)
	}
}
