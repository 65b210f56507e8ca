package bound

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"writ"
)

func TestNodeCannotInventDisks(t *testing.T) {
	t.Parallel()
	report := &writ.Report{Findings: writ.Findings{Disks: []writ.Disk{{Path: strings.Repeat("p\n", 1<<12), Bytes: 1 << 62, Free: -1}}}}
	for i := range 1000 {
		report.Disks = append(report.Disks, writ.Disk{Path: fmt.Sprint("/", i/2), Bytes: 10, Free: 100})
	}
	got := Report(report).Disks
	if len(got) != 17 { // of the first 32, each other one has a path of its own
		t.Fatalf("%d disks are kept, want 17", len(got))
	}
	if d := got[0]; len(d.Path) > MaxWord || strings.Contains(d.Path, "\n") || d.Bytes != maxDiskBytes || d.Free != 0 {
		t.Errorf("a disk has %d bytes of path, %d and %d", len(d.Path), d.Bytes, d.Free)
	}
	if want := (writ.Disk{Path: "/0", Bytes: 10, Free: 10}); got[1] != want {
		t.Errorf("a disk with more free than it has is %+v, want %+v", got[1], want)
	}
}

func TestNodeCannotInventAddresses(t *testing.T) {
	t.Parallel()
	good := writ.Published{Address: "2001:db8::10", Port: 8080, To: 80, Protocol: "tcp"}
	s := writ.Standing{MoreAddresses: []string{"fd00::7", "10.0.0.2\x1b[2J", "fe80::1%eth0", "example.org", ""}}
	for _, change := range []func(*writ.Published){
		func(*writ.Published) {},
		func(p *writ.Published) { p.Address = "javascript:alert(1)" },
		func(p *writ.Published) { p.Address = "fe80::1%\x1b[2J" },
		func(p *writ.Published) { p.Port = 0 },
		func(p *writ.Published) { p.Port = 65536 },
		func(p *writ.Published) { p.To = -1 },
		func(p *writ.Published) { p.Protocol = "sctp" },
	} {
		p := good
		change(&p)
		s.Published = append(s.Published, p)
	}
	report := Report(&writ.Report{States: []writ.ResourceState{{Standing: s}}})
	if got := report.States[0]; !slices.Equal(got.Published, []writ.Published{good}) || !slices.Equal(got.MoreAddresses, []string{"fd00::7"}) {
		t.Errorf("kept are %+v and %q", got.Published, got.MoreAddresses)
	}
	many := Standing(writ.Standing{
		MoreAddresses: slices.Repeat([]string{"fd00::7"}, 1000), Published: slices.Repeat([]writ.Published{good}, 1000),
	})
	if len(many.MoreAddresses) != maxMoreAddresses || len(many.Published) != maxPublished {
		t.Errorf("kept are %d addresses and %d ports", len(many.MoreAddresses), len(many.Published))
	}
}
