package simulated

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/logfile"
	"writ/sal/saltest"
)

// values returns base with some changes.
func values(base map[string]any, changes ...any) map[string]any {
	m := maps.Clone(base)
	for i := 0; i < len(changes); i += 2 {
		m[changes[i].(string)] = changes[i+1]
	}
	return m
}

var (
	imageSpec     = map[string]any{"url": "https://example.com/debian-12.raw", "sha256": strings.Repeat("0a", 32)}
	volumeSpec    = map[string]any{"size_gib": int64(10), "image": "debian-12"}
	machineSpec   = map[string]any{"cpus": int64(2), "memory_mib": int64(2048), "networks": []any{saltest.RefTo(writ.KindNetwork, "front")}}
	containerSpec = map[string]any{"image": "web", "env": map[string]any{"A": "b"}}
	herodbSpec    = map[string]any{"memory_mib": int64(512), "persist": true}

	rules = map[string]any{"rules": []any{map[string]any{"ports": []any{int64(80), int64(443)}}}}
	data  = map[string]any{"volume": saltest.RefTo(writ.KindVolume, "data")}
	name  = map[string]any{"snapshot": "before"}
	kept  = map[string]any{"backup": "nightly"}

	source = saltest.Other{Name: "source", Steps: []saltest.Step{
		{Operation: "volume.create", Args: volumeSpec},
		{Operation: "volume.snapshot", Args: name},
		{Operation: "volume.send", Args: kept},
	}}
)

// suites has one suite for each way to create a resource.
var suites = map[string]saltest.Suite{
	"image.fetch": {
		Make:      saltest.Step{Operation: "image.fetch", Args: imageSpec},
		Mutable:   values(imageSpec, "url", "file:///srv/debian-12.raw"),
		Immutable: values(imageSpec, "sha256", strings.Repeat("0b", 32)),
	},
	"volume.create": {
		Make:      saltest.Step{Operation: "volume.create", Args: volumeSpec},
		Mutable:   values(volumeSpec, "size_gib", int64(20)),
		Immutable: values(volumeSpec, "image", "debian-13"),
		Steps: []saltest.Step{
			{Operation: "volume.snapshot", Args: name},
			{Operation: "volume.resize", Args: map[string]any{"size_gib": int64(30)}},
			{Operation: "volume.restore", Args: name},
			{Operation: "volume.send", Args: kept},
			{Operation: "volume.discard", Args: kept},
			{Operation: "volume.delete_snapshot", Args: name},
		},
	},
	"volume.clone": {
		Others:    []saltest.Other{source},
		Make:      saltest.Step{Operation: "volume.clone", Args: map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "snapshot": "before"}},
		Mutable:   map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "snapshot": "before", "size_gib": int64(30)},
		Immutable: map[string]any{"from": saltest.RefTo(writ.KindVolume, "source")},
	},
	"volume.copy": {
		Others:    []saltest.Other{source},
		Make:      saltest.Step{Operation: "volume.copy", Args: map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "snapshot": "before", "size_gib": int64(20)}},
		Mutable:   map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "snapshot": "before", "size_gib": int64(30)},
		Immutable: map[string]any{"from": saltest.RefTo(writ.KindVolume, "source"), "size_gib": int64(20)},
	},
	"volume.receive": {
		Others:    []saltest.Other{source},
		Make:      saltest.Step{Operation: "volume.receive", Args: values(kept, "size_gib", int64(10))},
		Mutable:   values(kept, "size_gib", int64(30)),
		Immutable: map[string]any{"backup": "weekly", "size_gib": int64(10)},
	},
	"network.create": {
		Make:      saltest.Step{Operation: "network.create"},
		Immutable: map[string]any{"ipv4": "10.1.0.0/24"},
		Steps:     []saltest.Step{{Operation: "network.allow", Args: rules}},
	},
	"machine.create": {
		Make:      saltest.Step{Operation: "machine.create", Args: machineSpec},
		Mutable:   values(machineSpec, "cpus", int64(4), "memory_mib", int64(4096)),
		Immutable: values(machineSpec, "networks", []any{}),
		Steps: []saltest.Step{
			{Operation: "machine.attach", Args: data},
			{Operation: "machine.snapshot", Args: name},
			{Operation: "machine.pause"},
			{Operation: "machine.resume"},
			{Operation: "machine.stop"},
			{Operation: "machine.start"},
			{Operation: "machine.resize", Args: map[string]any{"cpus": int64(8)}},
			{Operation: "machine.detach", Args: data},
			{Operation: "machine.console"},
			{Operation: "machine.restore", Args: name},
			{Operation: "machine.delete_snapshot", Args: name},
		},
		Log: logOf(writ.KindMachine, "machine.console"),
	},
	"container.create": {
		Make:      saltest.Step{Operation: "container.create", Args: containerSpec},
		Mutable:   values(containerSpec, "image", "web-2", "env", map[string]any{"A": "c"}),
		Immutable: values(containerSpec, "networks", []any{saltest.RefTo(writ.KindNetwork, "front")}),
		Steps: []saltest.Step{
			{Operation: "container.exec", Args: map[string]any{"command": []any{"true"}}},
			{Operation: "container.logs"},
			{Operation: "container.stop"},
			{Operation: "container.start"},
		},
		Run: saltest.Step{Operation: "container.run", Args: map[string]any{"image": "web", "command": []any{"true"}}},
		Ran: ranPrograms,
		Log: logOf(writ.KindContainer, "container.logs"),
	},
	"herodb.create": {
		Make:      saltest.Step{Operation: "herodb.create", Args: herodbSpec},
		Mutable:   values(herodbSpec, "memory_mib", int64(1024)),
		Immutable: values(herodbSpec, "persist", false),
		Steps: []saltest.Step{
			{Operation: "herodb.backup", Args: kept},
			{Operation: "herodb.rotate_secret"},
			{Operation: "herodb.restore", Args: kept},
			{Operation: "herodb.delete_backup", Args: kept},
		},
	},
}

// ranPrograms counts the effects of container.run on a host.
func ranPrograms(t testing.TB, host string) (n int) {
	t.Helper()
	effects, err := ReadEffects(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range effects {
		if e.Operation == "container.run" {
			n++
		}
	}
	return n
}

// logOf writes to the files of simulated logs, because no program runs that would.
func logOf(kind writ.ResourceKind, operation string) saltest.Log {
	write := func(t testing.TB, host, text string) *logfile.Log {
		log := &logfile.Log{Path: filepath.Join(host, string(kind), "logs", saltest.Resource(kind, "subject").HostName()+".log")}
		f, err := os.OpenFile(log.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	return saltest.Log{
		Operation: operation,
		Write:     func(t testing.TB, host, text string) { write(t, host, text) },
		Flood: func(t testing.TB, host string) {
			for range 2 {
				if err := write(t, host, strings.Repeat("water\n", maxLog/6)).PutAside(); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

// Promise: Limits and shares: After a driver is killed at any step, its next call continues.
// How: Every driver writes a record before the first side effect.
func TestConformance(t *testing.T) {
	for operation, suite := range suites {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			module, _, _ := strings.Cut(operation, ".")
			suite.Open = func(t testing.TB, host string, step func(string)) sal.Driver {
				return open(t, Config{Module: module, Dir: host, Images: filepath.Join(host, "images"), Step: step})
			}
			saltest.Run(t, suite)
		})
	}
}

// An operation of the catalogue that no suite tests may be missing in the driver.
func TestSuitesCoverEveryOperation(t *testing.T) {
	tried := map[string]bool{}
	for _, suite := range suites {
		tried[suite.Make.Operation], tried[suite.Run.Operation] = true, true
		for _, s := range suite.Steps {
			tried[s.Operation] = true
		}
	}
	for _, module := range Modules {
		for _, o := range catalog.Of(module) {
			if o.Effect != catalog.Find && o.Effect != catalog.Remove && !tried[o.Name()] {
				t.Errorf("no suite runs %s: add it to the steps in suites, and to those of each driver of its module", o.Name())
			}
		}
	}
}

func open(t testing.TB, c Config) *Driver {
	t.Helper()
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// do executes an operation on a resource with the UID "u1" and the key "k".
func do(t testing.TB, ctx context.Context, d *Driver, operation, name string, args map[string]any) (sal.Outcome, error) {
	t.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		t.Fatalf("unknown operation %s", operation)
	}
	decoded, err := o.Decode(args)
	if err != nil {
		t.Fatal(err)
	}
	return d.Do(ctx, sal.Request{
		Operation: o, Resource: writ.ResourceID{Project: "p", Kind: o.Kind, Name: name}, UID: "u1", Args: decoded, Key: "k", Progress: func(string) {},
	})
}

func must(t testing.TB, d *Driver, operation, name string, args map[string]any) sal.Outcome {
	t.Helper()
	outcome, err := do(t, t.Context(), d, operation, name, args)
	if err != nil {
		t.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	return outcome
}

func TestCrashedEffectsAreCountedOnce(t *testing.T) {
	web := writ.ResourceID{Project: "p", Kind: writ.KindMachine, Name: "web"}
	want := []Effect{
		{Key: "k", Operation: "machine.create", Resource: web, UID: "u1", Generation: 1},
		{Key: "k", Operation: "machine.create", Resource: web, UID: "u1", Generation: 2},
		{Key: "k", Operation: "machine.pause", Resource: web, UID: "u1", Generation: 3},
	}
	bigger := values(machineSpec, "cpus", int64(4))
	crashed := true
	for stop := 0; crashed; stop++ {
		c := Config{Module: "machine", Dir: t.TempDir()}
		done := 0 // a call that has reported is not repeated
		work := func(step func(string)) {
			c.Step = step
			d := open(t, c)
			for _, call := range []func(){
				func() { must(t, d, "machine.create", "web", machineSpec) },
				func() { must(t, d, "machine.create", "web", bigger) },
				func() { must(t, d, "machine.pause", "web", nil) },
			}[done:] {
				call()
				done++
			}
		}
		crashed = crashesAt(stop, work)
		work(nil)
		got, err := ReadEffects(c.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("crashed at step %d:\n%s", stop, diff)
		}
	}
}

// crashesAt stops work at a step and reports whether it reached the step.
func crashesAt(stop int, work func(step func(string))) (crashed bool) {
	type crash struct{}
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(crash); !ours {
				panic(r)
			}
			crashed = true
		}
	}()
	steps := 0
	work(func(string) {
		if steps == stop {
			panic(crash{})
		}
		steps++
	})
	return false
}

// Once means that the runner must not repeat it. A driver that hid a repetition would hide the runner's mistake.
func TestEffectsOfOnceAreCountedEveryTime(t *testing.T) {
	d := open(t, Config{Module: "container", Dir: t.TempDir()})
	must(t, d, "container.create", "web", containerSpec)
	for range 2 {
		must(t, d, "container.exec", "web", map[string]any{"command": []any{"true"}})
	}
	if effects, err := d.Effects(); err != nil || len(effects) != 3 {
		t.Errorf("%d effects, %v; want 3", len(effects), err)
	}
}

func TestUnfinishedEffectIsDiscarded(t *testing.T) {
	c := Config{Module: "volume", Dir: t.TempDir()}
	d := open(t, c)
	must(t, d, "volume.create", "root", volumeSpec)
	log := filepath.Join(c.Dir, "volume", effectsFile)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, append(text, text[:len(text)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if effects, err := d.Effects(); err != nil || len(effects) != 1 {
		t.Errorf("with half a line: %d effects, %v", len(effects), err)
	}
	d = open(t, c)
	must(t, d, "volume.resize", "root", map[string]any{"size_gib": int64(20)})
	if effects, err := d.Effects(); err != nil || len(effects) != 2 {
		t.Errorf("after the repair: %d effects, %v", len(effects), err)
	}
}

// The test leaves half a line behind while the driver is open, like a disk that is full in the middle of a line.
func TestEffectsAreCountedAfterAFullDisk(t *testing.T) {
	c := Config{Module: "volume", Dir: t.TempDir()}
	d := open(t, c)
	must(t, d, "volume.create", "first", volumeSpec)
	log, err := os.OpenFile(filepath.Join(c.Dir, "volume", effectsFile), os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString(`{"key":"half`); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, d, "volume.create", "second", volumeSpec)
	if effects, err := d.Effects(); err != nil || len(effects) != 2 {
		t.Errorf("%d effects, %v, want 2", len(effects), err)
	}
}

func TestNamesCauseFailures(t *testing.T) {
	dir := t.TempDir()
	codes := func(name string, operations ...string) (codes []writ.Code) {
		for _, operation := range operations {
			d := open(t, Config{Module: "machine", Dir: dir}) // the failures are remembered over restarts
			var args map[string]any
			if operation == "machine.create" {
				args = machineSpec
			}
			_, err := do(t, t.Context(), d, operation, name, args)
			codes = append(codes, writ.CodeOf(err))
		}
		return codes
	}
	for name, want := range map[string][]writ.Code{
		"web":         {"", ""},
		"fail-web":    {writ.CodeInjectedFinal, writ.CodeInjectedFinal},
		"flaky-1-web": {writ.CodeInjected, ""},
		"flaky-2-web": {writ.CodeInjected, writ.CodeInjected},
		"flaky-x-web": {"", ""},
	} {
		if diff := cmp.Diff(want, codes(name, "machine.create", "machine.create")); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]writ.Code{"", "", ""}, codes("flaky-2-web", "machine.create", "machine.stop", "machine.delete")); diff != "" {
		t.Errorf("the third time and after:\n%s", diff)
	}
	if diff := cmp.Diff([]writ.Code{""}, codes("fail-web", "machine.delete")); diff != "" {
		t.Errorf("deleting fails:\n%s", diff)
	}
	effects, err := ReadEffects(dir)
	if err != nil || len(effects) != 6 { // web, flaky-1, flaky-x; flaky-2 made, stopped, deleted
		t.Errorf("failures count as effects: %d, %v", len(effects), err)
	}
}

func TestDurationsScaleWithTheSpeed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		speed float64
		want  time.Duration
	}{
		{"web", 0, 0},
		{"web", 1, durations["machine.create"]},
		{"web", 0.5, durations["machine.create"] / 2},
		{"slow-7-web", 0, 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, Config{Module: "machine", Dir: t.TempDir(), Speed: tt.speed})
			began := time.Now()
			must(t, d, "machine.create", tt.name, machineSpec)
			if took := time.Since(began); took != tt.want {
				t.Errorf("%s at speed %v took %v, want %v", tt.name, tt.speed, took, tt.want)
			}
		})
	}
}

func TestTimeEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, Config{Module: "machine", Dir: t.TempDir()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := do(t, ctx, d, "machine.create", "slow-600-web", machineSpec); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if all, err := d.List(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("List = %v, %v", all, err)
		}
	})
}

func TestMachineRefusesInvalidTransitions(t *testing.T) {
	d := open(t, Config{Module: "machine", Dir: t.TempDir()})
	spec := values(machineSpec, "disks", []any{saltest.RefTo(writ.KindVolume, "root")})
	must(t, d, "machine.create", "web", spec)
	for _, tt := range []struct {
		operation string
		args      map[string]any
		code      writ.Code
		state     string
	}{
		{"machine.pause", nil, "", paused},
		{"machine.resize", map[string]any{"cpus": int64(2)}, "", paused},
		{"machine.resize", map[string]any{"cpus": int64(4)}, writ.CodeResourceConflict, paused},
		{"machine.create", values(spec, "memory_mib", int64(4096)), writ.CodeResourceConflict, paused},
		{"machine.start", nil, writ.CodeResourceConflict, paused},
		{"machine.stop", nil, "", stopped},
		{"machine.pause", nil, writ.CodeResourceConflict, stopped},
		{"machine.resume", nil, writ.CodeResourceConflict, stopped},
		{"machine.restore", name, writ.CodeResourceUnknown, stopped},
		{"machine.detach", map[string]any{"volume": saltest.RefTo(writ.KindVolume, "root")}, writ.CodeResourceConflict, stopped},
		{"machine.attach", map[string]any{"volume": saltest.RefTo(writ.KindVolume, "root"), "read_only": true}, writ.CodeResourceConflict, stopped},
		{"machine.start", nil, "", running},
	} {
		_, err := do(t, t.Context(), d, tt.operation, "web", tt.args)
		seen, _ := d.Observe(t.Context(), writ.ResourceID{Project: "p", Kind: writ.KindMachine, Name: "web"})
		if writ.CodeOf(err) != tt.code || seen.State != tt.state {
			t.Errorf("%s: %v, state %s; want %q, %s", tt.operation, err, seen.State, tt.code, tt.state)
		}
	}
}

func TestDetachNeedsTheSameVolume(t *testing.T) {
	d := open(t, Config{Module: "machine", Dir: t.TempDir()})
	volume := func(name string) map[string]any {
		return map[string]any{"volume": saltest.RefTo(writ.KindVolume, name)}
	}
	other := saltest.RefTo(writ.KindVolume, "data")
	other.UID = saltest.RefTo(writ.KindVolume, "other").UID
	diskless := values(machineSpec, "disks", []any{})
	for name, spec := range map[string]map[string]any{"web": machineSpec, "diskless": diskless} {
		must(t, d, "machine.create", name, spec)
		must(t, d, "machine.attach", name, volume("data"))
		if _, err := do(t, t.Context(), d, "machine.detach", name, map[string]any{"volume": other}); writ.CodeOf(err) != writ.CodeResourceConflict {
			t.Errorf("%s: a different volume of that name: %v", name, err)
		}
		must(t, d, "machine.detach", name, volume("data"))
		must(t, d, "machine.detach", name, volume("data"))
	}
}

func TestRecordOfStoppedContainerCanChange(t *testing.T) {
	d := open(t, Config{Module: "container", Dir: t.TempDir()})
	must(t, d, "container.create", "web", containerSpec)
	must(t, d, "container.stop", "web", nil)
	for _, tt := range []struct {
		field string
		value any
		want  string
	}{{"restart", "never", stopped}, {"grace_seconds", int64(3), stopped}, {"env", map[string]any{"A": "c"}, running}} {
		if got := must(t, d, "container.create", "web", values(containerSpec, tt.field, tt.value)); got.Values["state"] != tt.want {
			t.Errorf("after a change of %s it is %v, want %s", tt.field, got.Values["state"], tt.want)
		}
	}
}

func TestExistingSnapshotStaysUnchanged(t *testing.T) {
	d := open(t, Config{Module: "machine", Dir: t.TempDir()})
	must(t, d, "machine.create", "web", machineSpec)
	must(t, d, "machine.snapshot", "web", name)
	must(t, d, "machine.stop", "web", nil)
	if again := must(t, d, "machine.snapshot", "web", name); again.Change != writ.ChangeUnchanged {
		t.Errorf("second snapshot: change = %q", again.Change)
	}
	if back := must(t, d, "machine.restore", "web", name); back.Values["state"] != running {
		t.Errorf("restored it is %v", back.Values["state"])
	}
}

func TestVolumesOnlyGrowAndHoldTheirContent(t *testing.T) {
	d := open(t, Config{Module: "volume", Dir: t.TempDir()})
	must(t, d, "volume.create", "root", volumeSpec)
	must(t, d, "volume.send", "root", kept)
	for _, tt := range []struct {
		operation, name string
		args            map[string]any
		code            writ.Code
	}{
		{"volume.resize", "root", map[string]any{"size_gib": int64(5)}, writ.CodeImmutableField},
		{"volume.create", "root", values(volumeSpec, "size_gib", int64(5)), writ.CodeImmutableField},
		{"volume.send", "root", kept, writ.CodeResourceConflict},
		{"volume.send", "root", map[string]any{"backup": "other", "snapshot": "none"}, writ.CodeResourceUnknown},
		{"volume.receive", "copy", values(kept, "size_gib", int64(5)), writ.CodeQuotaExceeded},
		{"volume.receive", "copy", values(kept, "size_gib", int64(10), "sha256", strings.Repeat("0a", 32)), writ.CodeChecksumMismatch},
		{"volume.receive", "copy", map[string]any{"backup": "none", "size_gib": int64(10)}, writ.CodeResourceUnknown},
		{"volume.clone", "copy", map[string]any{"from": saltest.RefTo(writ.KindVolume, "none")}, writ.CodeResourceUnknown},
		{"volume.copy", "copy", map[string]any{"from": "none", "size_gib": int64(10)}, writ.CodeResourceUnknown},
		{"volume.copy", "copy", map[string]any{"from": "root", "size_gib": int64(5)}, writ.CodeQuotaExceeded},
		{"volume.clone", "copy", map[string]any{"from": saltest.RefTo(writ.KindVolume, "root")}, writ.CodeResourceConflict},
		{"volume.clone", "copy", map[string]any{"from": writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}, "size_gib": int64(5)}, writ.CodeQuotaExceeded},
	} {
		if _, err := do(t, t.Context(), d, tt.operation, tt.name, tt.args); writ.CodeOf(err) != tt.code {
			t.Errorf("%s %s %v: %v, want %s", tt.operation, tt.name, tt.args, err, tt.code)
		}
	}
}

func TestAddressesFollowFromNames(t *testing.T) {
	dir := t.TempDir()
	network := must(t, open(t, Config{Module: "network", Dir: dir}), "network.create", "front", nil)
	machine := must(t, open(t, Config{Module: "machine", Dir: dir}), "machine.create", "web", machineSpec)
	db := must(t, open(t, Config{Module: "herodb", Dir: dir}), "herodb.create", "store", herodbSpec)
	got := []any{network.Values["subnet"], network.Values["gateway"], machine.Values["address"], machine.Values["mac"], db.Values["address"]}
	want := []any{
		"5a6:b89f:9d4c:6961::/64", "5a6:b89f:9d4c:6961::1", "5a6:b89f:9d4c:6961:ff0f:64c9:88e6:833f", "02:fb:b8:dd:a6:99",
		"[492:3cae:53ad:31bb:ff0f:e3c0:eec0:fa4d]:6379",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSimulatedImageWritesAStandIn(t *testing.T) {
	images := t.TempDir()
	d := open(t, Config{Module: "image", Dir: t.TempDir(), Images: images})
	made := must(t, d, "image.fetch", "debian-12", imageSpec)
	path := filepath.Join(images, writ.ResourceID{Project: "p", Kind: writ.KindImage, Name: "debian-12"}.HostName())
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "only simulates") || made.Values["path"] != path {
		t.Errorf("%s: %q, %v; path in the result = %v", path, text, err, made.Values["path"])
	}
	must(t, d, "image.delete", "debian-12", nil)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after image.delete: %v", err)
	}
}

func TestOpenRejectsModulesWithoutResources(t *testing.T) {
	if _, err := Open(Config{Module: "node", Dir: t.TempDir()}); err == nil {
		t.Error("module node was taken")
	}
}

// unasked is an origin from which the driver must not fetch.
type unasked struct{ testing.TB }

func (u unasked) Fetch(context.Context, string, sal.Part) error {
	u.Error("a simulated copy fetches something")
	return nil
}

func (unasked) Done(context.Context, string) {}

func TestSimulatedCopyFetchesNoArchive(t *testing.T) {
	d := open(t, Config{Module: "volume", Dir: t.TempDir()})
	o, _ := catalog.Lookup("volume.copy")
	args, err := o.Decode(map[string]any{"from": "elsewhere", "size_gib": int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Do(t.Context(), sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindVolume, "copy"), UID: "u1", Args: args, Key: "k", Origin: unasked{t}, Progress: func(string) {},
	})
	if err != nil || got.Values["size_gib"] != int64(7) || got.Values["simulated"] != true {
		t.Errorf("%v, %v", got.Values, err)
	}
}

func TestSimulatedContainerIsHealthyAtOnce(t *testing.T) {
	d := open(t, Config{Module: "container", Dir: t.TempDir()})
	checked := values(containerSpec, "health", map[string]any{"tcp": int64(80)})
	for _, step := range []struct {
		operation string
		args      map[string]any
		health    any
	}{
		{"container.create", containerSpec, nil},
		{"container.create", checked, "healthy"},
		{"container.stop", nil, nil},
		{"container.start", nil, "healthy"},
		{"container.create", containerSpec, nil},
	} {
		if got := must(t, d, step.operation, "web", step.args).Values["health"]; got != step.health {
			t.Errorf("after %s, its health is %v, want %v", step.operation, got, step.health)
		}
	}
}
