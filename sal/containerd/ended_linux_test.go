package containerd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

// hog fills the memory of its container.
const hog = `dd if=/dev/zero of=/dev/null bs=256M`

// handle returns the answer of container.get.
func (b *fixture) handle(name string) map[string]any {
	b.Helper()
	seen, err := b.driver.Observe(b.Context(), saltest.Resource(writ.KindContainer, name))
	if err != nil {
		b.Fatal(err)
	}
	return seen.Values
}

func TestEndedContainerReportsItsExit(t *testing.T) {
	b := newFixture(t, "")
	const killed = "exit code 137, killed by the kernel at its memory limit"
	for _, c := range []struct {
		name, line string
		code       int64
		starved    bool
		drift      string
	}{
		{"hungry", "exec " + hog, 137, true, "it has ended with " + killed + "; start it again with container.start"},
		{"parent", hog + "; exit 3", 3, true, "it has ended with exit code 3, after the kernel killed one of its processes at the memory limit; start it again with container.start"},
		{"failed", "exit 3", 3, false, "it has ended with exit code 3; start it again with container.start"},
		{"done", "exit 0", 0, false, ""},
	} {
		b.must("container.create", c.name, map[string]any{
			"image": "busybox", "restart": "never", "memory_mib": int64(32), "command": []any{"sh", "-c", c.line},
		})
		handle := func() map[string]any { return b.handle(c.name) }
		b.eventually(c.name+" ends", func() bool { return handle()["state"] == stopped })
		shows := func(when string, code int64, starved bool) {
			t.Helper()
			if v := handle(); v["last_exit_code"] != code || v["out_of_memory"] != starved {
				t.Errorf("%s, %s: the handle has %v, %v", c.name, when, v["last_exit_code"], v["out_of_memory"])
			}
		}
		shows("ended", c.code, c.starved)
		var want []sal.Drift
		if c.drift != "" {
			want = []sal.Drift{{What: c.drift}}
		}
		drift, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, c.name))
		if diff := cmp.Diff(want, drift); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
		b.must("container.stop", c.name, nil) // the daemon forgets the process
		shows("stopped", c.code, c.starved)
	}
	b.must("container.create", "hungry", map[string]any{"image": "busybox", "restart": "never", "command": waits})
	if v := b.handle("hungry"); v["last_exit_code"] != int64(-1) || v["out_of_memory"] != false {
		t.Errorf("its replacement has %v, %v", v["last_exit_code"], v["out_of_memory"])
	}
	b.must("container.stop", "hungry", map[string]any{"grace_seconds": int64(0)})
	if v := b.handle("hungry"); v["last_exit_code"] != int64(-1) {
		t.Errorf("one that was stopped has %v", v["last_exit_code"])
	}
}

func TestRestartReportsOutOfMemory(t *testing.T) {
	b := newFixture(t, "")
	b.must("container.create", "hungry", map[string]any{"image": "busybox", "memory_mib": int64(32), "command": []any{"sh", "-c", "exec " + hog}})
	var drift []sal.Drift
	b.eventually("it is restarted", func() bool {
		var err error
		if drift, err = b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, "hungry")); err != nil {
			t.Fatal(err)
		}
		return len(drift) > 0 && drift[0].Mended
	})
	if want := "it had ended with exit code 137, killed by the kernel at its memory limit; it was restarted"; !strings.HasPrefix(drift[0].What, want) {
		t.Errorf("it says %q", drift[0].What)
	}
	if v := b.handle("hungry"); v["last_exit_code"] != int64(137) || v["out_of_memory"] != true {
		t.Errorf("started again, its handle has %v, %v", v["last_exit_code"], v["out_of_memory"])
	}
	b.must("container.delete", "hungry", nil)
}
