package supervisor_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/envelope"
	"writ/internal/hidden"
	"writ/supervisor/nodes"
)

// lastAbout returns a node as its last event shows it.
func (s *sim) lastAbout(id writ.NodeID) (last writ.Node) {
	s.t.Helper()
	for _, e := range s.eventsOf("node") {
		if e.Node.ID == id {
			last = *e.Node
		}
	}
	return last
}

// describe sends a report about the node's machine, and waits until its event is stored.
func (n *testNode) describe(r nodes.HostReport) {
	n.mu.Lock()
	if r.Epoch == 0 {
		r.Epoch = n.epoch
	}
	n.mu.Unlock()
	if r.Node == "" {
		r.Node = n.id
	}
	n.send(envelope.Host, r)
	time.Sleep(15 * time.Second) // another report is accepted then
	synctest.Wait()
}

func TestReportedFactsOfAMachineAreStored(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, other := s.join("n1"), s.join("n2")
		host := writ.Host{
			OS: "writ node", Image: "0a1b", Kernel: "6.1.0", Vendor: "Supermicro", CPU: "EPYC", MemoryMiB: 1024, Booted: time.Now().UTC().Add(-time.Hour),
			Disks: []writ.HostDisk{{Name: "vda", Bytes: 1 << 30, Parts: []writ.HostPart{{Name: "vda1", Label: "data", Mounted: "/data"}}}},
			NICs:  []writ.HostNIC{{Name: "eth0", MAC: "52:54:00:77:00:50", Carrier: true, Addresses: []string{"10.77.0.4/24"}}},
		}
		wantHost := func(what string) {
			t.Helper()
			if diff := cmp.Diff(&host, s.lastAbout(n.id).Host); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		n.describe(nodes.HostReport{Incarnation: 1, Count: 2, Host: host})
		wantHost("first report")
		n.describe(nodes.HostReport{Incarnation: 1, Count: 1, Host: writ.Host{Kernel: "an older word"}})
		n.describe(nodes.HostReport{Incarnation: 1, Count: 3, Epoch: 1, Host: writ.Host{Kernel: "to an earlier supervisor"}})
		other.describe(nodes.HostReport{Node: n.id, Incarnation: 9, Count: 9, Host: writ.Host{Kernel: "of another node"}})
		wantHost("after ignored reports")
		if got := s.lastAbout(other.id).Host; got != nil {
			t.Errorf("host of the other node = %+v, want none", got)
		}
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantHost("after a restart of the supervisor")
	})
}

// restart restarts the machine of a node, with a new runner process.
func (n *testNode) restart(boot string) {
	n.mu.Lock()
	n.boot, n.incarnation, n.sequence = boot, n.incarnation+1, 0
	n.mu.Unlock()
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

func TestRestartsOfAMachineAreCounted(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		want := func(boot string, restarts int) {
			t.Helper()
			if got := s.lastAbout(n.id); got.Boot != boot || got.Restarts != restarts {
				t.Errorf("boot %q after %d restarts, want %q after %d", got.Boot, got.Restarts, boot, restarts)
			}
		}
		n.restart("b1")
		want("b1", 0)
		n.restart("b1") // the runner only, not the machine
		want("b1", 0)
		n.restart("b2")
		want("b2", 1)
		s.halt()
		s.start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		n.restart("b2")
		want("b2", 1)
		n.restart("b3")
		want("b3", 2)
	})
}

// hostTexts returns all texts in the description of a machine.
func hostTexts(h *writ.Host) []string {
	all := []string{h.OS, h.Image, h.Kernel, h.Vendor, h.Product, h.Serial, h.CPU}
	for _, d := range h.Disks {
		all = append(all, d.Name, d.Model, d.Serial)
		for _, p := range d.Parts {
			all = append(all, p.Name, p.Label, p.Mounted)
		}
	}
	for _, n := range h.NICs {
		all = append(all, n.Name, n.MAC, n.Driver)
		all = append(all, n.Addresses...)
	}
	return all
}

// Promise: Admission of nodes: The machine description of a hostile node is shown sanitised and within limits: 64
// disks, 64 network cards, 128 bytes per text.
// How: The supervisor truncates and cleans it before storing and accepts one message per ten seconds.
// Also: TestNodeReportsItsMachineRarely.
func TestHostileHostFactsAreCleaned(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		evil := "\x1b]0;owned\a\x1b[2J\u202e" + strings.Repeat("ä\u202e\n", 40)
		host := writ.Host{OS: evil, Image: evil, Kernel: evil, Vendor: evil, Product: evil, Serial: evil, CPU: evil, MemoryMiB: -1, Booted: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
		for i := range 100 {
			parts := slices.Repeat([]writ.HostPart{{Name: evil, Bytes: -5, Label: evil, Mounted: evil}}, 3)
			host.Disks = append(host.Disks, writ.HostDisk{Name: evil + fmt.Sprint(i), Bytes: -1, Model: evil, Serial: evil, Parts: parts})
			host.NICs = append(host.NICs, writ.HostNIC{Name: evil, MAC: evil, Driver: evil, SpeedMbit: -1, Addresses: slices.Repeat([]string{evil}, 20)})
		}
		n.describe(nodes.HostReport{Incarnation: 1, Count: 1, Host: host})
		got := s.lastAbout(n.id).Host
		if got == nil {
			t.Fatal("no host stored")
		}
		for _, text := range hostTexts(got) {
			if len(text) > nodes.MaxHostWord+len(" …") || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsFunc(text, hidden.Is) {
				t.Fatalf("stored text %q of %d bytes", text, len(text))
			}
		}
		parts := 0
		for _, d := range got.Disks {
			parts += len(d.Parts)
			if d.Bytes != 0 {
				t.Fatalf("stored a disk of %d bytes, want 0", d.Bytes)
			}
		}
		if len(got.Disks) != nodes.MaxDisks || parts != nodes.MaxParts || len(got.NICs) != nodes.MaxNICs || len(got.NICs[0].Addresses) != nodes.MaxAddresses {
			t.Errorf("stored %d disks with %d parts, %d cards with %d addresses", len(got.Disks), parts, len(got.NICs), len(got.NICs[0].Addresses))
		}
		if got.MemoryMiB != 0 || !got.Booted.IsZero() {
			t.Errorf("stored %d MiB of memory, booted at %s; want neither", got.MemoryMiB, got.Booted)
		}
	})
}

func TestNodeReportsItsMachineRarely(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		time.Sleep(time.Minute)
		before := len(s.eventsOf("node"))
		n.mu.Lock()
		epoch := n.epoch
		n.mu.Unlock()
		for i := range 120 {
			n.send(envelope.Host, nodes.HostReport{Node: n.id, Incarnation: 1, Count: int64(i + 1), Epoch: epoch, Host: writ.Host{Kernel: fmt.Sprint(i)}})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if events := len(s.eventsOf("node")) - before; events < 5 || events > 20 {
			t.Errorf("120 reports in two minutes produced %d events, want 5 to 20", events)
		}
	})
}

// A real runner reads the description of this machine, and the supervisor shows it for the node.
func TestRealRunnerReportsItsMachine(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.realNode("n1")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := s.lastAbout(n.id())
		if got.Host == nil || got.Host.Kernel == "" || got.Host.MemoryMiB == 0 || got.Boot == "" || got.Restarts != 0 {
			t.Errorf("host = %+v, boot %q, %d restarts", got.Host, got.Boot, got.Restarts)
		}
	})
}

// Each month stores how long a node was online and how long its supervisor observed it. Without a supervisor, neither
// time increases.
//
// Promise: Commands and hosts: `writ usage --nodes` shows the online share of each node in a month, also across
// restarts of the supervisor.
// How: Added to the month every ten minutes and at shutdown; kept in the journal for 13 months.
// Also: TestOnlyAllOfTheTimeIsShownAsAHundredPercent.
func TestOnlineTimeIsStoredByMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), nil)
		n := s.join("n1") // on 1 January 2000
		// The tolerance covers time that is not stored yet: it is stored every ten minutes and at the end of a supervisor.
		about := func(got, want time.Duration) bool { return (got - want).Abs() <= 11*time.Minute }
		want := func(what string, months ...[2]time.Duration) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			got := s.lastAbout(n.id).Online
			if len(got) != len(months) {
				t.Fatalf("%s: %+v", what, got)
			}
			for i, m := range months {
				if o := got[i]; !about(time.Duration(o.Seconds)*time.Second, m[0]) || !about(time.Duration(o.Of)*time.Second, m[1]) || o.Month != fmt.Sprintf("2000-%02d", i+1) {
					t.Errorf("%s: %+v, want %v", what, o, m)
				}
			}
		}
		time.Sleep(time.Hour)
		want("first hour", [2]time.Duration{time.Hour, time.Hour})
		n.setSilent(true)
		time.Sleep(time.Hour)
		want("silent", [2]time.Duration{time.Hour, 2 * time.Hour})
		s.halt()
		time.Sleep(3 * time.Hour)
		n.setSilent(false)
		s.start()
		time.Sleep(time.Hour)
		want("next supervisor", [2]time.Duration{2 * time.Hour, 3 * time.Hour})
		for range 12 { // supervisors that end before they store any time
			s.halt()
			s.start()
			time.Sleep(5 * time.Minute)
		}
		want("short-lived supervisors", [2]time.Duration{3 * time.Hour, 4 * time.Hour})
		s.clock.set(31 * 24 * time.Hour)
		time.Sleep(time.Hour)
		want("in February", [2]time.Duration{3 * time.Hour, 4 * time.Hour}, [2]time.Duration{time.Hour, time.Hour})
	})
}
