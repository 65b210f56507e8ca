package containerd

import (
	"testing"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

func TestLoadIsThatOfTheContainer(t *testing.T) {
	b := newFixture(t, "")
	load := func(name string) sal.Load {
		t.Helper()
		l, err := b.driver.Load(t.Context(), saltest.Resource(writ.KindContainer, name))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := load("busy"); l != (sal.Load{}) {
		t.Errorf("a missing container has the load %+v", l)
	}
	b.must("container.create", "busy", map[string]any{"image": "busybox", "command": []any{
		"sh", "-c", "x=$(head -c 20000000 /dev/zero | tr '\\0' x); while :; do :; done",
	}})
	b.must("container.create", "idle", map[string]any{"image": "busybox", "command": waits})
	first := load("busy")
	b.eventually("it holds 20 MB and uses a processor", func() bool {
		l := load("busy")
		return l.Memory > 18<<20 && l.CPU > first.CPU+200*time.Millisecond
	})
	l, idle := load("busy"), load("idle")
	if !l.Running || l.UID == "" || l.Memory > 100<<20 || l.Restarts != 0 {
		t.Errorf("the busy container has the load %+v", l)
	}
	if !idle.Running || idle.Memory == 0 || idle.Memory > 10<<20 || idle.CPU > l.CPU {
		t.Errorf("the idle container has the load %+v beside %+v", idle, l)
	}

	b.killed("busy")
	b.eventually("it is restarted", func() bool {
		drift, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, "busy"))
		return err == nil && len(drift) > 0 && drift[0].Mended
	})
	if again := load("busy"); again.Restarts != 1 || !again.Running || again.UID != l.UID {
		t.Errorf("after a restart it has the load %+v", again)
	}
	b.must("container.stop", "busy", map[string]any{"grace_seconds": int64(0)})
	if l := load("busy"); l.Running || l.Restarts != 1 {
		t.Errorf("stopped it has the load %+v", l)
	}
	b.must("container.delete", "busy", nil)
	b.must("container.delete", "idle", nil)
	if l := load("busy"); l != (sal.Load{}) {
		t.Errorf("deleted it has the load %+v", l)
	}
}
