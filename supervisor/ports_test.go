package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/opening"
	"writ/internal/test/testenv"
)

// Promise: Plans, scripts and manuals: Containers that publish the same port go to different nodes. If no node has the
// port open and free, the plan and the run refuse it and name the user of the port, unless that is in another project.
// How: The supervisor counts the ports of resources and of open calls; each node decides again.
func TestPublishedPortsAreDistributed(t *testing.T) {
	open, err := opening.ParseList([]string{"192.0.2.10:8080-8081"})
	if err != nil {
		t.Fatal(err)
	}
	script := func(name string, ports ...int64) string {
		var publish []string
		for _, port := range ports {
			publish = append(publish, fmt.Sprintf("{port: %d, to: 80}", port))
		}
		return fmt.Sprintf(`i_%[1]s := image.fetch("i-%[1]s", {url: "https://images.example/i", sha256: "%[2]s", format: "oci"})
%[1]s := container.create("%[1]s", {image: i_%[1]s, publish: [%[3]s]})
`, name, strings.Repeat("a", 64), strings.Join(publish, ", "))
	}
	inSim(t, func(t *testing.T, s *sim) {
		for _, name := range []string{"n1", "n2"} {
			s.realNode(name, func(n *realNode) { n.open = open })
		}
		nodes := map[string]bool{}
		_, calls := s.wantState(s.submit(previewModules+script("a", 8080)+script("b", 8080)), writ.RunSucceeded)
		for _, c := range calls {
			nodes[c.NodeName] = true
		}
		if len(nodes) != 2 {
			t.Errorf("nodes of two containers with one port = %v, want both nodes", nodes)
		}
		for _, tt := range []struct {
			script string
			code   writ.Code
			words  []string
		}{
			{script("c", 8080), writ.CodePortTaken, []string{"8080/tcp published by container a", "8080/tcp published by container b"}},
			{script("c", 8082), writ.CodePortClosed, []string{"does not open port 8082", "192.0.2.10:8080-8081"}},
			{script("a", 8080, 8090), writ.CodePortClosed, []string{"does not open port 8090"}},
			{script("c", 8081) + `d := container.create("d", {image: i_c, publish: [{port: 8081, to: 81}]})` + "\n", writ.CodePortTaken, []string{"8081/tcp twice"}},
		} {
			preview := s.preview(s.payload(previewModules + tt.script))
			refused := 0
			for _, c := range preview.Calls {
				if c.Error != nil && c.Error.Code == tt.code && testenv.Mentions(c.Error.Message, tt.words...) {
					refused++
				}
			}
			if refused == 0 {
				t.Errorf("%s: preview = %v", tt.script, previewLines(preview))
			}
			run, _ := s.wantState(s.submit(previewModules+tt.script), writ.RunFailed)
			if run.Failure.Error.Code != tt.code || !testenv.Mentions(run.Failure.Error.Message, tt.words...) {
				t.Errorf("%s: failure = %+v", tt.script, run.Failure)
			}
		}
		preview := s.preview(s.payload(previewModules + script("a", 8080) + script("e", 0) + script("f", 8081)))
		for _, c := range preview.Calls {
			if c.Error != nil {
				t.Errorf("preview = %v: %v", previewLines(preview), c.Error)
			}
		}
		s.wantState(s.submit(previewModules+`container.delete("a")`), writ.RunSucceeded)
		s.wantState(s.submit(previewModules+script("c", 8080)), writ.RunSucceeded)
	})
}

// Promise: Plans, scripts and manuals: Containers that share a port are spread over the nodes, and several of them can
// be on one node. The port stays taken for all others.
// How: The supervisor prefers the node with the fewest containers that share the port.
func TestSharedPortsAreSpread(t *testing.T) {
	open, err := opening.ParseList([]string{"192.0.2.10:8080"})
	if err != nil {
		t.Fatal(err)
	}
	script := func(share string, names ...string) string {
		text := previewModules
		for _, name := range names {
			text += fmt.Sprintf(`container.create("%[1]s", {
	image: image.fetch("i-%[1]s", {url: "https://images.example/i", sha256: "%[2]s", format: "oci"}), publish: [{port: 8080, to: 80%[3]s}]
}).state
`, name, strings.Repeat("a", 64), share)
		}
		return text
	}
	inSim(t, func(t *testing.T, s *sim) {
		for _, name := range []string{"n1", "n2"} {
			s.realNode(name, func(n *realNode) { n.open = open })
		}
		nodes := map[string]int{}
		_, calls := s.wantState(s.submit(script(`, share: "web"`, "web-1", "web-2", "web-3", "web-4")), writ.RunSucceeded)
		for _, c := range calls {
			nodes[c.NodeName]++ // the image and the container
		}
		if len(nodes) != 2 || nodes["n1"] != 4 {
			t.Errorf("calls per node = %v, want 4 on each", nodes)
		}
		for _, share := range []string{"", `, share: "shop"`} {
			run, _ := s.wantState(s.submit(script(share, "other")), writ.RunFailed)
			if run.Failure.Error.Code != writ.CodePortTaken || !testenv.Mentions(run.Failure.Error.Message, "published by container web-1") {
				t.Errorf("%q: %+v", share, run.Failure)
			}
		}
	})
}

// A call that waits for a node is still placed only where its ports are free.
func TestWaitingCallKeepsItsPorts(t *testing.T) {
	open, err := opening.ParseList([]string{"192.0.2.10:8080-8081"})
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString(previewModules)
	for _, name := range []string{"a", "b"} {
		fmt.Fprintf(&script, `i_%[1]s := image.fetch("i-%[1]s", {url: "https://images.example/i", sha256: "%[2]s", format: "oci"})
container.create("%[1]s", {image: i_%[1]s, publish: [{port: 8080, to: 80}]})
`, name, strings.Repeat("a", 64))
	}
	inSim(t, func(t *testing.T, s *sim) {
		var nodes []*realNode
		for _, name := range []string{"n1", "n2"} {
			nodes = append(nodes, s.realNode(name, func(n *realNode) { n.open = open }))
		}
		for _, n := range nodes {
			n.halt()
		}
		time.Sleep(time.Minute)
		run := s.submit(script.String())
		time.Sleep(time.Minute)
		if _, calls := s.look(run); calls[0].Why.Code != writ.ReasonNoNode {
			t.Fatalf("wait reason = %+v", calls[0].Why)
		}
		nodes[0].start()
		time.Sleep(time.Minute)
		nodes[1].start()
		on := map[string]bool{}
		_, calls := s.wantState(run, writ.RunSucceeded)
		for _, c := range calls {
			on[c.NodeName] = true
		}
		if len(on) != 2 {
			t.Errorf("nodes of two containers with one port = %v, want both nodes", on)
		}
	})
}
