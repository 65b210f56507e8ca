package scripts_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// withLibrary compiles a script with the imports of the library.
func withLibrary(t testing.TB, text string) *interpreter.Program {
	t.Helper()
	text = `run := import("run"); volume := import("volume"); network := import("network")
service := import("lib/service@1"); fleet := import("lib/fleet@1"); backup := import("lib/backup@1"); generations := import("lib/generations@1")
` + text
	bundle, err := scripts.Resolve(scripts.Source{Name: "test.tengo", Text: []byte(text)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, bundle)
}

// callsOf returns "operation name options" of each call.
func callsOf(w *fixture) (list []string) {
	for _, c := range w.calls {
		line := c.Operation + " " + c.Name
		if c.Options.Node != "" {
			line += " on " + c.Options.Node
		}
		if len(c.Options.Labels) > 0 {
			line += fmt.Sprint(" with ", c.Options.Labels)
		}
		list = append(list, line)
	}
	return list
}

func TestLibraryModulesRejectInvalidArguments(t *testing.T) {
	for call, want := range map[string]string{
		`fleet.create({})`:                                                                              `wrong number of arguments`,
		`fleet.create(1, {})`:                                                                           `fleet.create takes the name of the fleet first, not int`,
		`fleet.create("web", 3)`:                                                                        `fleet.create web: the spec is a map`,
		`fleet.create("web", {}, 1)`:                                                                    `options are one map`,
		`fleet.create("web", {cpus: 1})`:                                                                `count is missing`,
		`fleet.create("web", {count: 0})`:                                                               `count must be 1 to 500, not 0`,
		`fleet.create("web", {count: "2"})`:                                                             `count must be an int, not string`,
		`fleet.create("web", {count: 1, disks: []})`:                                                    `the disks are made here; say volumes`,
		`fleet.create("web", {count: 1, from: ["::/0"]})`:                                               `there are no ports`,
		`fleet.create("web", {count: 1, network: network.get("n"), ports: [1]})`:                        `ports is for a network that is made here`,
		`fleet.create("web", {count: 1, network: network.get("n"), places: [{}, {}]})`:                  `one network cannot be in 2 places`,
		`fleet.create("web", {count: 1, volumes: {data: "1"}})`:                                         `volumes: data is a size in GiB, not string`,
		`fleet.create("web", {count: 1, places: []})`:                                                   `places is empty`,
		`fleet.create("web", {count: 1, places: ["node-1"]})`:                                           `a place is a map with node or labels`,
		`fleet.create("web", {count: 1, places: [{nod: "a"}]})`:                                         `a place has node or labels, not nod`,
		`fleet.create("web", {count: 1, each: func(i, n) { return 1 }})`:                                `each returns a map with fields of a machine, not int`,
		`fleet.create("web", {count: 1, cpus: 1, memory: 64})`:                                          `no field "memory"; did you mean "memory_mib"?`,
		`service.create({})`:                                                                            `wrong number of arguments`,
		`service.create(1, {})`:                                                                         `the name must be a string, not int`,
		`service.create("web", 3)`:                                                                      `service.create web: the spec must be a map`,
		`service.create("web", {}, 1)`:                                                                  `a map of options`,
		`service.create("web", {replica: 3})`:                                                           `unknown field replica; the spec has replicas`,
		`service.create("web", {container: {image: "web"}})`:                                            `replicas must be 1 to 100, not missing`,
		`service.create("web", {replicas: 0, container: {image: "web"}})`:                               `replicas must be 1 to 100, not 0`,
		`service.create("web", {replicas: "2", container: {image: "web"}})`:                             `replicas must be 1 to 100, not 2`,
		`service.create("web", {replicas: 2})`:                                                          `container must be a map with the fields of container.create, not undefined`,
		`service.create("web", {replicas: 2, container: {publish: []}})`:                                `publish belongs beside container`,
		`service.create("web", {replicas: 2, container: {}, publish: 80})`:                              `publish must be a list`,
		`service.create("web", {replicas: 2, container: {}, publish: [80]})`:                            `publish must have maps`,
		`service.create("web", {replicas: 2, container: {}, publish: [{share: "a"}]})`:                  `omit share`,
		`service.create("web", {replicas: 2, container: {image: "web"}, publish: [{port: 0, to: 80}]})`: `publish[0].share needs a port other than 0`,
		`service.create("web", {replicas: 2, container: {}, update: 10})`:                               `update must be a map`,
		`service.create("web", {replicas: 2, container: {}, update: {surge: 1}})`:                       `unknown field surge in update`,
		`service.create("web", {replicas: 2, container: {}, update: {healthy_seconds: 1}})`:             `update.healthy_seconds needs container.health`,
		`service.create("web", {replicas: 2, container: {image: "web", memory: 64}})`:                   `no field "memory"; did you mean "memory_mib"?`,
		`backup.take([])`:                                `backup.take: it takes a map`,
		`backup.take({})`:                                `nothing to keep`,
		`backup.take({volume: ["a"]})`:                   `there is no volume; it takes volumes`,
		`backup.take({volumes: "a"})`:                    `volumes must be a list, not string`,
		`backup.take({volumes: [1]})`:                    `volumes are handles or names, not int`,
		`backup.take({databases: ["a"], archive: true})`: `archives are of volumes`,
		`backup.take({volumes: ["a"]}, "1h")`:            `options are one map`,
		`generations.keep(1, {})`:                        `it takes a volume first`,
		`generations.keep("a", 7)`:                       `the spec is a map`,
		`generations.keep("a", {})`:                      `keep must be 1 to 30, not left out`,
		`generations.keep("a", {keep: 31})`:              `keep must be 1 to 30, not 31`,
		`generations.keep("a", {keep: 1, copies: 2})`:    `there is no copies`,
		`generations.keep("a", {keep: 1, name: 2})`:      `name must be a string`,
	} {
		o, _ := play(t, withLibrary(t, call), everything(), nil)
		if o.Status != scripts.Failed || !strings.Contains(o.Failure.Message, want) {
			t.Errorf("%s\n%s %+v, want %q", call, o.Status, o.Failure, want)
			continue
		}
		if !strings.HasPrefix(o.Failure.Position, "lib/") && !strings.Contains(want, "wrong number") || !strings.Contains(o.Failure.Position+strings.Join(o.Failure.Trace, " "), "test.tengo:3:") {
			t.Errorf("%s\nis refused at %s %v, want the module and the caller's line", call, o.Failure.Position, o.Failure.Trace)
		}
	}
}

// The next replica is created after the result of the previous one, and none after a failure.
func TestServiceUpdatesOneReplicaAfterTheOther(t *testing.T) {
	p := withLibrary(t, `
s := service.create("web", {
	replicas: 3, container: {image: "web", health: {http: "/", retries: 2}}, publish: [{port: 80, to: 8080}], update: {healthy_seconds: 5}
}, {timeout: "10m"})
run.output({names: s.names, state: s.replicas[2].state})
`)
	w := &fixture{}
	for i, name := range []string{"web-1", "web-2", "web-3"} {
		o, err := p.Pass(t.Context(), everything(), w.journal)
		if err != nil || o.Status != scripts.Waiting || len(o.Calls) != 1 || o.Calls[0].Name != name {
			t.Fatalf("pass %d: %v, %+v", i, err, o)
		}
		c := o.Calls[0]
		want := map[string]any{
			"image": "web", "publish": []any{map[string]any{"port": int64(80), "to": int64(8080), "share": "web"}},
			"health": map[string]any{"http": "/", "retries": int64(2), "healthy_seconds": int64(5)},
		}
		op, _ := catalog.Lookup("container.create")
		if diff := cmp.Diff(op.Args.Fill(want), c.Args); diff != "" || c.Options.Timeout != 600_000 {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		w.take(t, o.Calls)
		w.answer(0)
	}
	if o, err := p.Pass(t.Context(), everything(), w.journal); err != nil || o.Status != scripts.Completed {
		t.Errorf("at the end: %v, %+v", err, o)
	}
	o, w := play(t, withLibrary(t, `service.create("fail-web", {replicas: 3, container: {image: "web"}})`), everything(), nil)
	if o.Status != scripts.Failed || o.Failure.Code != writ.CodeInjected || len(w.calls) != 1 {
		t.Errorf("after a failure: %+v, %v", o.Failure, callsOf(w))
	}
}

func TestFleetFollowsItsPlacement(t *testing.T) {
	o, w := play(t, withLibrary(t, `
f := fleet.create("web", {count: 3, cpus: 1, memory_mib: 64, size_gib: 2, ports: [80], env: {A: "a"},
	places: [{node: "n1"}, {labels: {rack: "b"}}],
	each: func(i, name) { return i == 1 ? {env: {A: name}} : undefined }}, {retries: 2})
run.output({names: f.names, networks: len(f.networks)})
`), everything(), nil)
	if o.Status != scripts.Completed {
		t.Fatalf("%+v", o)
	}
	want := []string{
		"network.create web-net-0 on n1", "network.allow web-net-0 on n1",
		"network.create web-net-1 with map[rack:b]", "network.allow web-net-1 with map[rack:b]",
		"volume.create web-0 on n1", "machine.create web-0 on n1",
		"volume.create web-1 with map[rack:b]", "machine.create web-1 with map[rack:b]",
		"volume.create web-2 on n1", "machine.create web-2 on n1",
	}
	if diff := cmp.Diff(want, callsOf(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, want := range map[int]string{5: "a", 7: "web-1", 9: "a"} {
		if env := w.calls[i].Args["env"].(map[string]any); env["A"] != want || *w.calls[i].Options.Retries != 2 {
			t.Errorf("%s has %v", w.calls[i].Name, env)
		}
	}
}

// All linked calls must be made in one pass; otherwise they may get different nodes.
func TestLibraryModulesMakeCallsInOnePass(t *testing.T) {
	o, err := withLibrary(t, `
f := fleet.create("web", {count: 20, cpus: 1, memory_mib: 64, volumes: {data: 1}, ports: [80]})
b := backup.take({volumes: f.roots, machines: f.machines, databases: ["store"], label: "x", archive: true})
run.log(len(f.machines), b.label)
f.addresses()
`).Pass(t.Context(), everything(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 + 20*3 + 20*3 + 1; o.Status != scripts.Waiting || len(o.Calls) != want || len(o.Logs) != 1 {
		t.Errorf("%s with %d calls, want %d", o.Status, len(o.Calls), want)
	}
}

func TestBackupReportsFailures(t *testing.T) {
	o, w := play(t, withLibrary(t, `
b := backup.take({volumes: ["data", "fail-logs"], machines: ["web"], archive: true})
run.log(b.failures())
b.report()
`), everything(), nil)
	if o.Status != scripts.Failed || o.Failure.Code != writ.CodeInjected {
		t.Fatalf("%+v", o)
	}
	if want := `[{code: "INJECTED", message: "told to fail", what: "archive of fail-logs"}, {code: "INJECTED", message: "told to fail", what: "volume fail-logs"}]`; !slices.Equal(o.Logs, []string{want}) {
		t.Errorf("%s", o.Logs)
	}
	want := []string{"run.now ", "volume.snapshot data", "volume.snapshot fail-logs", "machine.snapshot web", "volume.send data", "volume.send fail-logs"}
	if diff := cmp.Diff(want, callsOf(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := w.calls[1].Args["snapshot"]; got != "20231114-221320" {
		t.Errorf("the label is %v", got)
	}
}

// Runs many rounds with different numbers to keep, and with runs that end after any of their calls.
func TestGenerationsKeepTheNewest(t *testing.T) {
	there := map[string]bool{"data": true}
	age := map[string]int{}
	for round := range 200 {
		keep := 1 + round/17%5*7
		until := 1_000
		if round%5 == 4 {
			until = 34 // the copy is made, and no more
		}
		before := len(there)
		p := withLibrary(t, fmt.Sprintf(`run.output(generations.keep("data", {keep: %d}))`, keep))
		w := &fixture{}
		for {
			o, err := p.Pass(t.Context(), everything(), w.journal)
			if err != nil || o.Status == scripts.Failed {
				t.Fatalf("round %d: %v %+v", round, err, o.Failure)
			}
			w.take(t, o.Calls[:min(len(o.Calls), until-len(w.journal))])
			for len(w.open) > 0 {
				c := w.calls[w.open[0]]
				known := there[c.Name]
				w.answer(0)
				switch e := &w.journal[c.Seq-1]; {
				case c.Operation == "volume.clone":
					there[c.Name], age[c.Name] = true, round
				case c.Operation == "volume.delete":
					delete(there, c.Name)
				case !known:
					e.State, e.Values, e.Error = scripts.EntryFailed, nil, writ.Errorf(writ.CodeResourceUnknown, "not there")
				}
			}
			if o.Status == scripts.Completed || len(w.journal) == until {
				break
			}
		}
		if until == 34 {
			if len(there) != before+1 {
				t.Fatalf("round %d: %d volumes, want one more than %d", round, len(there), before)
			}
			continue
		}
		if len(there) > 1+keep {
			t.Fatalf("round %d: %d copies, want %d at most", round, len(there)-1, keep)
		}
		for back := range len(there) - 1 { // the newest ones, without a gap
			if !slices.ContainsFunc(slices.Collect(maps.Keys(there)), func(name string) bool { return name != "data" && age[name] == round-back }) {
				t.Fatalf("round %d: the copy of round %d is gone: %v", round, round-back, there)
			}
		}
	}
}
