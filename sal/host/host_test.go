package host

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

func driver(t *testing.T) *Driver {
	return &Driver{Dir: t.TempDir(), Drivers: func() []writ.NodeDriver {
		return []writ.NodeDriver{
			{Module: "node", Name: "host"},
			{Module: "volume", Name: "simulated", Simulated: true, Detail: "no btrfs here"},
			{Module: "herodb", Name: "engines", Detail: "redis-server 7.0.15", Engines: []writ.Engine{{Name: "redis-server", Version: "7.0.15"}, {Name: "hero_redis", Version: "unknown", Refused: "it shows its secret"}}},
		}
	}}
}

// do carries out an operation and checks its result against the catalogue.
func do(t *testing.T, d *Driver, operation string) map[string]any {
	t.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		t.Fatalf("unknown operation %s", operation)
	}
	outcome, err := d.Do(t.Context(), sal.Request{Operation: o, Args: &catalog.Nothing{}, Progress: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if problems := o.Result.Check(outcome.Values, nil); problems != nil || outcome.Change != writ.ChangeNone {
		t.Errorf("%s: %v, change %q", operation, problems, outcome.Change)
	}
	return outcome.Values
}

func TestFactsAreThoseOfThisMachine(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip("facts are read on Linux only")
	}
	facts := do(t, driver(t), "node.facts")
	name, _ := os.Hostname()
	if facts["hostname"] != name || facts["boot_id"] != strings.TrimSpace(string(boot)) {
		t.Errorf("%v", facts)
	}
	for _, amount := range []string{"cpus", "memory_mib", "disk_gib"} {
		if facts[amount].(int64) <= 0 {
			t.Errorf("%s is %v", amount, facts[amount])
		}
	}
	if facts["disk_free_gib"].(int64) > facts["disk_gib"].(int64) {
		t.Errorf("free space exceeds the disk: %v", facts)
	}
}

func TestFactsNeedTheirDisk(t *testing.T) {
	d := driver(t)
	d.Dir += "/none"
	o, _ := catalog.Lookup("node.facts")
	if _, err := d.Do(t.Context(), sal.Request{Operation: o}); writ.CodeOf(err) != writ.CodeDriverFailed {
		t.Errorf("without a disk: %v", err)
	}
}

func TestDriversAreThoseOfTheNode(t *testing.T) {
	want := map[string]any{"drivers": []any{
		map[string]any{"module": "node", "name": "host", "simulated": false, "detail": ""},
		map[string]any{"module": "volume", "name": "simulated", "simulated": true, "detail": "no btrfs here"},
		map[string]any{"module": "herodb", "name": "engines", "simulated": false, "detail": "redis-server 7.0.15; not used: hero_redis unknown (it shows its secret)"},
	}}
	if diff := cmp.Diff(want, do(t, driver(t), "node.drivers")); diff != "" {
		t.Error(diff)
	}
}

func TestPingDoesNothing(t *testing.T) {
	d := driver(t)
	if values := do(t, d, "node.ping"); len(values) != 0 {
		t.Errorf("values = %v", values)
	}
	if all, err := d.List(t.Context()); all != nil || err != nil {
		t.Errorf("List = %v, %v", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, _ := catalog.Lookup("node.ping")
	if _, err := d.Do(ctx, sal.Request{Operation: o}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

func TestEveryOperationOfTheModuleIsServed(t *testing.T) {
	d := driver(t)
	for _, o := range catalog.Of(d.Describe().Module) {
		if o.Effect != catalog.Find {
			do(t, d, o.Name())
		}
	}
}
