package supervisor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/examples"
	"writ/scripts/interpreter"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/workflow"
)

// proposal plans a script as a client does, and encodes the proposal as a link does.
func (s *sim) proposal(p *identity.Payload) writ.Proposal {
	s.t.Helper()
	bundle := scripts.Bundle{Main: scripts.Source(p.Script)}
	for _, m := range p.Modules {
		bundle.Modules = append(bundle.Modules, scripts.Source(m))
	}
	plan, err := interpreter.PlanOf(s.t.Context(), bundle, scripts.Inputs{
		Params: p.Params, Project: p.ProjectName, Datacenter: theDatacenter, DatacenterName: "ams1", Allow: p.Allow, MaxCalls: p.MaxCalls,
	})
	if err != nil || plan.Failure != nil {
		s.t.Fatalf("plan: %v, %+v", err, plan.Failure)
	}
	text, err := json.Marshal(writ.Proposal{Project: theProject, Deployment: p.Deployment.Name, Destructive: len(p.Targets) > 0, Targets: p.Targets, Uses: p.Uses, Calls: plan.Proposed(), Waits: plan.Waits})
	if err != nil {
		s.t.Fatal(err)
	}
	var proposal writ.Proposal
	if err := link.Decode(text, &proposal); err != nil {
		s.t.Fatal(err)
	}
	return proposal
}

// preview returns the preview of a payload. It fails the test if the preview changed the journal.
func (s *sim) preview(p *identity.Payload) writ.Preview {
	s.t.Helper()
	synctest.Wait() // receive the messages of nodes
	before := s.dump()
	preview, err := s.Preview(s.t.Context(), s.proposal(p))
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		s.t.Errorf("the preview changed the journal:\n%s", diff)
	}
	return preview
}

// dump returns all rows of the journal.
func (s *sim) dump() map[string][]string {
	s.t.Helper()
	rows := make(map[string][]string)
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		tables, err := texts(s.t.Context(), tx, `SELECT name FROM sqlite_master WHERE type = 'table'`)
		for _, table := range tables {
			if rows[table], err = texts(s.t.Context(), tx, `SELECT * FROM `+table); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

func texts(ctx context.Context, tx *journal.Tx, query string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []string
	for rows.Next() {
		cells, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprint(cells...))
	}
	return all, rows.Err()
}

// previewLines formats a preview as one line per call: "create on n1", "refused NO_CAPACITY".
func previewLines(p writ.Preview) []string {
	var lines []string
	for _, c := range p.Calls {
		line := string(c.Action)
		for _, f := range c.Fields {
			line += fmt.Sprintf(" %s %s→%s", f.Field, f.From, f.To)
		}
		switch {
		case c.Error != nil:
			line += " " + string(c.Error.Code)
		case c.NodeName != "":
			line += " on " + c.NodeName
		}
		if c.Waits {
			line += ": " + c.Reason
		}
		lines = append(lines, line)
	}
	return lines
}

const previewModules = "volume := import(\"volume\")\nmachine := import(\"machine\")\nnetwork := import(\"network\")\nherodb := import(\"herodb\")\n" +
	"node := import(\"node\")\nrun := import(\"run\")\nimage := import(\"image\")\ncontainer := import(\"container\")\n"

func TestPreviewListsEffectsOfRun(t *testing.T) {
	before := `
disk := volume.create("disk", {size_gib: 10})
machine.create("m", {cpus: 1, memory_mib: 512, disks: [disk]})
volume.create("spare", {size_gib: 20})
volume.clone("copy", {from: disk})
lan := network.create("lan", {})
network.allow(lan, {rules: [{ports: [80]}]})
image.fetch("oci", {url: "https://images.example/oci", sha256: "` + strings.Repeat("b", 64) + `", format: "oci"})
`
	tests := []struct {
		name, script string
		want         []string
	}{
		{"Create", `volume.create("new", {size_gib: 1})`, []string{"create on n1"}},
		{"Update", `volume.create("disk", {size_gib: 11})`, []string{"update size_gib 10→11 on n1"}},
		{"UpdateTwice", `volume.create("disk", {size_gib: 11}); volume.create("disk", {size_gib: 12})`,
			[]string{"update size_gib 10→11 on n1", "update size_gib 11→12 on n1"}},
		{"Unchanged", `volume.create("disk", {size_gib: 10})`, []string{"unchanged on n1"}},
		{"UnchangedWithHandles", `disk := volume.get("disk"); machine.create("m", {cpus: 1, memory_mib: 512, disks: [disk]})`, []string{"read on n1", "unchanged on n1"}},
		{"Resize", `volume.resize("disk", {size_gib: 30}); volume.create("disk", {size_gib: 40})`, []string{"update size_gib 10→30 on n1", "update size_gib 10→40 on n1"}},
		{"ResizeToTheSame", `volume.resize("disk", {size_gib: 10})`, []string{"unchanged on n1"}},
		{"Shrink", `volume.create("disk", {size_gib: 5}); volume.resize("spare", {size_gib: 5})`, []string{"refused IMMUTABLE_FIELD", "refused IMMUTABLE_FIELD"}},
		{"Immutable", `machine.create("m", {cpus: 1, memory_mib: 512, disks: [volume.get("spare")]})`, []string{"read on n1", "refused IMMUTABLE_FIELD"}},
		{"ImageOfAnotherFormat", `i := image.fetch("i", {url: "https://images.example/i", sha256: "` + strings.Repeat("a", 64) + `"}); container.create("c", {image: i}); volume.create("v", {size_gib: 1, image: "i"})`,
			[]string{"create on n1", "refused ARGUMENTS_INVALID", "create on n1"}},
		{"ContainerImageAsKernel", `i := image.fetch("i", {url: "https://images.example/i", sha256: "` + strings.Repeat("a", 64) + `", format: "oci"}); machine.create("k", {cpus: 1, memory_mib: 512, kernel: i}); volume.create("v", {size_gib: 1, image: i})`,
			[]string{"create on n1", "refused ARGUMENTS_INVALID", "refused ARGUMENTS_INVALID"}},
		{"DiskOfAnotherMachine", `machine.create("x", {cpus: 1, memory_mib: 512, disks: [volume.get("disk")]})`, []string{"read on n1", "refused RESOURCE_CONFLICT"}},
		{"OneDiskForTwoMachines", `v := volume.create("v", {size_gib: 1}); machine.create("a", {cpus: 1, memory_mib: 512, disks: [v]}); machine.create("b", {cpus: 1, memory_mib: 512, disks: [v]})`,
			[]string{"create on n1", "create on n1", "refused RESOURCE_CONFLICT"}},
		{"AttachedDisk", `v := volume.create("v", {size_gib: 1}); machine.attach("m", {volume: v}); machine.create("b", {cpus: 1, memory_mib: 512, disks: [v]}); machine.attach("m", {volume: v})`,
			[]string{"create on n1", "act on n1", "refused RESOURCE_CONFLICT", "unchanged on n1"}},
		{"DetachedDisk", `v := volume.create("v", {size_gib: 1}); machine.attach("m", {volume: v}); machine.detach("m", {volume: v}); machine.create("b", {cpus: 1, memory_mib: 512, disks: [v]})`,
			[]string{"create on n1", "act on n1", "act on n1", "create on n1"}},
		{"DiskOfADeletedMachine", `machine.delete("m"); machine.create("x", {cpus: 1, memory_mib: 512, disks: [volume.get("disk")]})`, []string{"delete on n1", "read on n1", "create on n1"}},
		{"DiskOfAContainer", `v := volume.create("v", {size_gib: 1}); container.create("c", {image: "oci", volumes: [{volume: v, path: "/v"}]}); machine.create("b", {cpus: 1, memory_mib: 512, disks: [v]}); container.create("d", {image: "oci", volumes: [{volume: v, path: "/v"}]})`,
			[]string{"create on n1", "create on n1", "refused RESOURCE_BUSY", "create on n1"}},
		{"DiskInAContainer", `container.create("c", {image: "oci", volumes: [{volume: volume.get("disk"), path: "/v"}]})`, []string{"read on n1", "refused RESOURCE_BUSY"}},
		{"SmallerThanItsContent", `d := volume.get("disk"); volume.clone("c", {from: d, size_gib: 9}); volume.copy("e", {from: "disk", size_gib: 9}); volume.clone("f", {from: d})`,
			[]string{"read on n1", "refused QUOTA_EXCEEDED", "refused QUOTA_EXCEEDED", "create on n1"}},
		{"MadeInAnotherWay", `volume.create("copy", {size_gib: 10})`, []string{"refused RESOURCE_CONFLICT"}},
		{"Delete", `volume.delete("spare"); volume.delete("spare"); volume.delete("never")`, []string{"delete on n1", "unchanged", "unchanged"}},
		{"CreateAfterDelete", `volume.delete("spare"); v := volume.create("spare", {size_gib: 1}); volume.get("spare")`, []string{"delete on n1", "create on n1", "read on n1"}},
		{"Find", `volume.get("disk"); volume.get("nothing")`, []string{"read on n1", "refused RESOURCE_UNKNOWN"}},
		{"FindNewResource", `volume.create("new", {size_gib: 1}); volume.get("new")`, []string{"create on n1", "read on n1"}},
		{"Followers", `machine.start("nothing"); v := volume.get("nothing"); volume.clone("c", {from: v})`,
			[]string{"refused RESOURCE_UNKNOWN", "refused RESOURCE_UNKNOWN", "refused DEPENDENCY_FAILED"}},
		{"NotReached", `n := volume.get("nothing").size_gib; volume.create("new", {size_gib: 1})`, []string{"refused RESOURCE_UNKNOWN", "unreached"}},
		{"NoCapacity", `volume.create("big", {size_gib: 980})`, []string{"refused NO_CAPACITY"}},
		{"NoCapacityTogether", `v := volume.create("a", {size_gib: 500}); volume.clone("b", {from: v, size_gib: 500})`, []string{"refused NO_CAPACITY", "refused NO_CAPACITY"}},
		{"NoCapacityForTheSecond", `volume.create("a", {size_gib: 500}); volume.create("b", {size_gib: 500})`, []string{"create on n1", "refused NO_CAPACITY"}},
		{"CapacityThatIsFreed", `run.log(volume.delete("spare").uid); volume.create("big", {size_gib: 980})`, []string{"delete on n1", "create on n1"}},
		{"GrowTooMuch", `volume.resize("disk", {size_gib: 1001})`, []string{"refused NO_CAPACITY"}},
		{"AnotherNode", `volume.create("a", {size_gib: 1}, {node: "n9"})`, []string{"refused NO_CAPACITY"}},
		{"TheSameRules", `network.create("lan", {}); network.allow("lan", {rules: [{ports: [80]}]})`, []string{"unchanged on n1", "unchanged on n1"}},
		{"OtherRules", `network.allow("lan", {rules: [{ports: [80, 443]}]})`, []string{"act on n1"}},
		{"RuleForMissingIPv4", `network.allow("lan", {rules: [{ports: [80]}, {from: ["10.0.0.0/8"]}]}); network.allow("lan", {rules: [{from: ["10.0.0.0/8", "400::/7"]}]})`,
			[]string{"refused ARGUMENTS_INVALID", "act on n1"}},
		{"RuleForIPv4", `n := network.create("n", {ipv4: "10.9.0.0/24"}); network.allow(n, {rules: [{from: ["10.0.0.0/8"]}]})`, []string{"create on n1", "act on n1"}},
		{"Look", `node.ping(); node.facts()`, []string{"read on n1", "read on n1"}},
		{"UnknownArgument", `f := node.facts(); volume.create("new", {size_gib: f.cpus}); volume.create("disk", {size_gib: f.cpus})`,
			[]string{"read on n1", "create on n1", `unknown size_gib 10→ on n1`}},
		{"UnknownName", `f := node.facts(); v := volume.create("v-" + f.cpus, {size_gib: 1}); volume.get("w-" + f.cpus)`, []string{"read on n1", "unknown on n1", "unknown"}},
	}
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1") // the node has 1000 GiB
		s.wantState(s.submit(previewModules+before), writ.RunSucceeded)
		for _, tt := range tests { // all in one sim, because a preview leaves no trace
			preview := s.preview(s.payload(previewModules + strings.ReplaceAll(tt.script, "; ", "\n") + "\n"))
			if diff := cmp.Diff(tt.want, previewLines(preview)); diff != "" {
				t.Errorf("%s: %s", tt.name, diff)
				for _, c := range preview.Calls {
					t.Logf("%d: %+v", c.Seq, c)
				}
			}
		}
	})
}

// wantAsPreviewed fails the test unless each call of a run ended as the preview predicted.
func (s *sim) wantAsPreviewed(preview writ.Preview, calls []*journal.Call) {
	s.t.Helper()
	for i, p := range preview.Calls {
		if p.Action == writ.ActionUnreached {
			if len(calls) > i {
				s.t.Errorf("call %d exists, want it unreached", p.Seq)
			}
			continue
		}
		c := calls[i]
		may := map[writ.Action][]writ.Change{
			writ.ActionCreate: {writ.ChangeCreated}, writ.ActionUpdate: {writ.ChangeUpdated}, writ.ActionUnchanged: {writ.ChangeUnchanged},
			writ.ActionDelete: {writ.ChangeDeleted}, writ.ActionRead: {writ.ChangeNone}, writ.ActionAct: {writ.ChangeUpdated, writ.ChangeUnchanged, writ.ChangeNone},
			writ.ActionUnknown: {writ.ChangeCreated, writ.ChangeUpdated, writ.ChangeUnchanged}, writ.ActionRefused: {writ.ChangeNone},
		}[p.Action]
		switch {
		case p.Action == writ.ActionRefused && (c.Error == nil || c.Error.Code != p.Error.Code || c.Error.Message != p.Error.Message && c.Error.Code != writ.CodeImmutableField):
			s.t.Errorf("call %d: preview %+v, error %+v", p.Seq, p.Error, c.Error)
		case p.Action != writ.ActionRefused && c.Error != nil && p.NodeName == "":
			s.t.Errorf("call %d: preview %s, error %+v", p.Seq, p.Action, c.Error)
		case c.Error == nil && !slices.Contains(may, c.Change):
			s.t.Errorf("call %d, %s %s: preview %s, change %q", p.Seq, c.Operation, c.Name, p.Action, c.Change)
		case p.Action != writ.ActionRefused && p.Node != c.Node:
			s.t.Errorf("call %d, %s %s: preview on %s, ran on %s", p.Seq, c.Operation, c.Name, p.NodeName, c.NodeName)
		}
	}
}

// Each example script, and some scripts that fail, are previewed and run twice on two nodes.
//
// Promise: Plans, scripts and manuals: A preview shows the change, node and error of each call of the later run.
// How: It uses the claiming and placing of a real step on a read-only journal.
// Also: TestPreviewListsEffectsOfRun.
func TestPreviewEqualsLaterRun(t *testing.T) {
	tests := map[string]string{
		"refused": previewModules + `
a := volume.create("a", {size_gib: 600}, {node: "n1"})
b := volume.create("b", {size_gib: 600}, {node: "n2"})
machine.create("m", {cpus: 1, memory_mib: 512, disks: [a, b]})
volume.create("c", {size_gib: 600})
volume.get("nothing")
`,
		"refused before its last read": previewModules + `
run.log(volume.get("nothing").path)
run.log(volume.create("a", {size_gib: 1}).path)
`,
		"waits": previewModules + `
a := volume.create("a", {size_gib: 1})
run.log(a.path)
m := machine.create("m", {cpus: 1, memory_mib: 512, disks: [a]})
b := volume.create("b", {size_gib: 1})
machine.stop(m).state
n := machine.create("n", {cpus: 1, memory_mib: 512, disks: [b]})
machine.start(m)
`,
	}
	files, err := fs.Glob(examples.Files, "*.tengo")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(examples.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		tests[file] = string(text)
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.realNode("n1")
				s.realNode("n2")
				time.Sleep(2 * time.Second)
				for time := range 2 {
					preview := s.preview(s.payload(script))
					_, calls := s.await(s.submit(script))
					s.wantAsPreviewed(preview, calls)
					if t.Failed() {
						t.Fatalf("submission %d: %q", time+1, previewLines(preview))
					}
				}
			})
		})
	}
}

func TestPreviewShowsReasonsAndKeptResources(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		n2 := s.join("n2")
		time.Sleep(2 * time.Second)
		in := func(deployment string, base int, script string) *identity.Payload {
			p := s.payload(previewModules + script)
			p.Deployment = identity.Deployment{Name: deployment, Base: base}
			return p
		}
		run, err := s.Submit(t.Context(), s.signPayload(in("web", 0, `
volume.create("a", {size_gib: 1}, {node: "n1"})
volume.create("b", {size_gib: 1}, {node: "n2"})
volume.create("c", {size_gib: 1}, {node: "n2"})
`)))
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(run.ID, writ.RunSucceeded)

		preview := s.preview(in("web", 1, `volume.create("a", {size_gib: 1}); machine.create("m", {cpus: 99, memory_mib: 512})`))
		want := []writ.KeptResource{{Kind: writ.KindVolume, Name: "b", NodeName: "n2"}, {Kind: writ.KindVolume, Name: "c", NodeName: "n2"}}
		if diff := cmp.Diff(want, preview.Kept); diff != "" || preview.Revision != 1 {
			t.Errorf("revision %d, kept resources: %s", preview.Revision, diff)
		}
		if string(preview.Calls[0].Values) == "" {
			t.Error("the unchanged call has no values")
		}
		big := preview.Calls[1]
		if big.Error.Code != writ.CodeNoCapacity || len(big.Nodes) != 2 || !testenv.Mentions(big.Nodes[1].Reason, "99") {
			t.Errorf("preview of the large machine = %+v", big)
		}
		if c := s.preview(in("shop", 0, `volume.create("b", {size_gib: 2})`)).Calls[0]; c.Error == nil || c.Error.Code != writ.CodeNotOwner {
			t.Errorf("preview of another deployment's volume = %+v", c)
		}
		if c := s.preview(in("shop", 0, `volume.create("b", {size_gib: 2}, {adopt: true})`)).Calls[0]; c.Action != writ.ActionUpdate {
			t.Errorf("preview of the adopted volume = %+v", c)
		}
		cruel := in("web", 1, `volume.delete("a")`)
		for _, targets := range [][]string{nil, {"volume/b"}, {"image/a", "volume/abc*"}} {
			cruel.Targets = targets
			if c := s.preview(cruel).Calls[0]; c.Error == nil || c.Error.Code != writ.CodeDestructiveDenied {
				t.Errorf("delete with targets %q: preview = %+v", targets, c)
			}
		}
		old := s.proposal(in("web", 0, ``))
		old.Base = new(0)
		if preview, err := s.Preview(t.Context(), old); err != nil || preview.Refused == nil || preview.Refused.Code != writ.CodeConflict {
			t.Errorf("preview against an old revision: %+v, %v, want CONFLICT", preview, err)
		}

		n2.setSilent(true)
		time.Sleep(10 * time.Second)
		lines := previewLines(s.preview(in("web", 1, `volume.resize("b", {size_gib: 2}); volume.create("d", {size_gib: 1}, {node: "n2"}); volume.create("e", {size_gib: 1})`)))
		wantLines := []string{"update size_gib 1→2 on n2: waits for node n2, which is silent", "create: no node is ready: n2: is silent", "create on n1"}
		if diff := cmp.Diff(wantLines, lines); diff != "" {
			t.Errorf("preview with a silent node: %s", diff)
		}
	})
}

func TestPreviewIncludesOtherRuns(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(time.Minute)) // the node has 1000 GiB
		time.Sleep(2 * time.Second)
		p := s.payload(previewModules + `volume.create("v", {size_gib: 600})`)
		p.Deployment = identity.Deployment{Name: "web"}
		run, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		s.awaitCall(run.ID, 1, writ.CallRunning)
		again := s.payload(previewModules + `volume.create("v", {size_gib: 600}); volume.create("w", {size_gib: 600}); volume.create("x", {size_gib: 300})`)
		again.Deployment = p.Deployment
		preview := s.preview(again)
		want := []string{"create: another run, " + string(run.ID) + ", still works on the volume v", "refused NO_CAPACITY", "create on n1"}
		if diff := cmp.Diff(want, previewLines(preview)); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(preview.Reason, string(run.ID)) {
			t.Errorf("reason = %q, want the other run of the deployment", preview.Reason)
		}
		s.wantState(run.ID, writ.RunSucceeded)
	})
}

// Promise: Plans, scripts and manuals: A preview leaves no trace and has a bounded cost.
// How: A reading transaction, bounded in calls, time and answer; two at once.
// Also: TestLargestPlansArePreviewed.
func TestHostileProposalsAreRefused(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		time.Sleep(2 * time.Second)
		deep := strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)
		volumes := func(n int) string {
			return strings.TrimSuffix(strings.Repeat(`{"operation": "volume.create", "name": "v", "args": {"size_gib": 1}},`, n), ",")
		}
		for calls, want := range map[string]writ.Code{
			`{"operation": "volume.explode", "name": "v"}`:                                                                       writ.CodeBadRequest,
			`{"operation": "volume.create", "name": "../etc", "args": {"size_gib": 1}}`:                                          writ.CodeBadRequest,
			`{"operation": "volume.create", "args": {"size_gib": 1}}`:                                                            writ.CodeBadRequest,
			`{"operation": "volume.create", "name": {"(known after)": ["x"]}, "args": {"size_gib": 1}}`:                          writ.CodeBadRequest,
			`{"operation": "node.ping", "name": "v"}`:                                                                            writ.CodeBadRequest,
			`{"operation": "volume.create", "name": "v"}`:                                                                        writ.CodeBadRequest,
			`{"operation": "volume.create", "name": "v", "args": {"size_gib": -1}}`:                                              writ.CodeBadRequest,
			`{"operation": "volume.create", "name": "v", "args": {"size_gib": 1, "depth": ` + deep + `}}`:                        writ.CodeBadRequest,
			`{"operation": "volume.create", "name": "v", "args": {"size_gib": 1}, "options": {"node": 7}}`:                       writ.CodeBadRequest,
			`{"operation": "volume.create", "name": "v", "args": {"size_gib": 1}, "after": [1]}`:                                 writ.CodeBadRequest,
			`{"operation": "node.ping", "waits": [0]}`:                                                                           writ.CodeBadRequest,
			`{"operation": "node.ping"}, {"operation": "volume.clone", "name": "w", "args": {"from": {"ref": 1}}, "after": [1]}`: writ.CodeBadRequest,
			`{"operation": "volume.clone", "name": "w", "args": {"from": {"ref": 1}}}`:                                           writ.CodeBadRequest,
			volumes(2001): writ.CodeTooLarge,
		} {
			var p writ.Proposal
			err := link.Decode([]byte(`{"project": "`+string(theProject)+`", "calls": [`+calls+`]}`), &p)
			if err == nil {
				_, err = s.Preview(t.Context(), p)
			}
			if writ.CodeOf(err) != want {
				t.Errorf("%.80s: %v, want %s", calls, err, want)
			}
		}
		for _, p := range []writ.Proposal{{}, {Project: "x"}, {Project: theProject, Deployment: "No"}, {Project: theProject, Base: new(1)}, {Project: theProject, Deployment: "web", Base: new(-1)}} {
			if _, err := s.Preview(t.Context(), p); err == nil {
				t.Errorf("preview of %+v succeeded", p)
			}
		}
	})
}

// Each plan has the maximum number of calls and a high cost. Each preview must succeed and fit into a frame.
func TestLargestPlansArePreviewed(t *testing.T) {
	s := newSim(t)
	s.join("n1")
	s.join("large", func(n *testNode) { n.capacity = writ.Capacity{CPUs: 1 << 14, MemoryMiB: 1 << 24, DiskGiB: 1 << 14} })
	const most = workflow.MaxPreviewed
	call := func(operation string, waits, after []int, args map[string]any) func(i int) writ.ProposedCall {
		return func(i int) writ.ProposedCall {
			return writ.ProposedCall{Operation: operation, Name: fmt.Sprint("v", i), Args: args, Waits: waits, After: after}
		}
	}
	size := map[string]any{"size_gib": int64(1)}
	for name, make := range map[string]func(i int) writ.ProposedCall{
		"alike":   call("volume.create", nil, nil, size),
		"too big": call("volume.create", nil, nil, map[string]any{"size_gib": int64(2000)}),
		"one after the other": func(i int) writ.ProposedCall {
			c := call("volume.create", nil, nil, size)(i)
			if i > 0 {
				c.Waits = []int{i}
			}
			return c
		},
		"on one resource": func(i int) writ.ProposedCall { return call("volume.create", nil, nil, size)(0) },
		"created and deleted": func(i int) writ.ProposedCall {
			return call([]string{"volume.create", "volume.delete"}[i%2], nil, nil, map[string]any{"size_gib": int64(1)})(0)
		},
		"a chain of clones": func(i int) writ.ProposedCall {
			if i == 0 {
				return call("volume.create", nil, nil, size)(i)
			}
			return call("volume.clone", nil, []int{i}, map[string]any{"from": map[string]any{"ref": int64(i)}})(i)
		},
		"machines with disks": func(i int) writ.ProposedCall {
			c := call("volume.create", nil, nil, size)(i)
			if i%2 == 1 {
				c = call("machine.create", nil, []int{i}, map[string]any{
					"cpus": int64(1), "memory_mib": int64(256), "disks": []any{map[string]any{"ref": int64(i)}},
				})(i)
			}
			c.Options = map[string]any{"node": "large"}
			return c
		},
	} {
		p := writ.Proposal{Project: theProject, Destructive: true}
		for i := range most {
			c := make(i)
			if c.Operation == "volume.delete" {
				c.Args = nil
			}
			p.Calls = append(p.Calls, c)
		}
		preview, err := s.Preview(t.Context(), p)
		if err != nil || len(preview.Calls) != most {
			t.Errorf("%s: %d calls, %v", name, len(preview.Calls), err)
			continue
		}
		text, err := json.Marshal(preview)
		if err != nil || len(text) > link.MaxFrame-4<<10 {
			t.Errorf("%s: preview of %d bytes, %v", name, len(text), err)
		}
		if last := preview.Calls[most-1]; name == "machines with disks" && last.Action != writ.ActionCreate {
			t.Errorf("%s: last call = %s %v", name, last.Action, last.Error)
		}
		if i := slices.IndexFunc(preview.Calls, func(c writ.PreviewedCall) bool { return c.Action == "" }); i >= 0 {
			t.Errorf("%s: no action for call %d", name, i+1)
		}
	}
}
