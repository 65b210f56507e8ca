package containerd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

func TestGraceOfAContainerIsChosen(t *testing.T) {
	t.Parallel()
	create := func(seconds int64) any { return &catalog.ContainerCreate{GraceSeconds: seconds} }
	for _, tt := range []struct {
		call          any
		own, replaced sal.Spec
		want          time.Duration
	}{
		{create(5), sal.Spec{"grace_seconds": int64(6)}, sal.Spec{"grace_seconds": int64(7)}, 5 * time.Second},
		{create(0), sal.Spec{"grace_seconds": int64(6)}, sal.Spec{"grace_seconds": int64(7)}, 6 * time.Second},
		{create(0), sal.Spec{}, sal.Spec{"grace_seconds": int64(7)}, 7 * time.Second},
		{create(0), sal.Spec{}, nil, time.Minute},
		{&catalog.ContainerDelete{GraceSeconds: 5}, sal.Spec{"grace_seconds": int64(6)}, nil, 5 * time.Second},
		{&catalog.ContainerDelete{}, sal.Spec{"grace_seconds": int64(6)}, nil, 6 * time.Second},
		{nil, sal.Spec{}, nil, time.Minute},
	} {
		j := &job{Driver: &Driver{Grace: time.Minute}, Request: sal.Request{Args: tt.call}}
		if got := j.graceOf(&record{Spec: tt.own, Own: own{Beside: tt.replaced}}); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt, got, tt.want)
		}
	}
}

// obeys returns a command that ends only on one signal and then writes a line to /data/log.
func obeys(number int) []any {
	return []any{"sh", "-c", fmt.Sprintf(
		`trap "echo in order >>/data/log; exit 0" %d; trap "echo terminated >>/data/log" TERM; echo up; while :; do sleep 1000 & wait; done`, number)}
}

func TestContainersEndByTheirStopSignal(t *testing.T) {
	b := newFixture(t, "")
	b.driver.Grace = guard
	images := shelf{}
	b.driver.Images = images
	for _, tt := range []struct {
		name, signal string
		number       int
		ending       string
		args         map[string]any
	}{
		{"quit", "SIGQUIT", 3, "container.stop", map[string]any{"grace_seconds": int64(30)}},
		{"interrupt", "SIGINT", 2, "container.create", map[string]any{"memory_mib": int64(600)}},
		{"realtime", "SIGRTMIN+3", 37, "container.delete", nil},
		{"number", "10", 10, "container.delete", nil},
	} {
		archive := testenv.BusyboxThatSays(t, map[string]any{"StopSignal": tt.signal})
		images[tt.name] = sal.Image{Path: archive.Path, Format: "oci", SHA256: archive.SHA256, Bytes: archive.Bytes}
		spec := map[string]any{"image": tt.name, "command": obeys(tt.number), "volumes": []any{mount(tt.name, "/data")}}
		b.must("container.create", tt.name, spec)
		b.eventually(tt.name+" is up", func() bool { return strings.Contains(b.log(tt.name), "up") })
		if tt.ending == "container.create" { // replaces it
			maps.Copy(spec, tt.args)
			tt.args = spec
		}
		if values := b.must(tt.ending, tt.name, tt.args); values["ended"] != catalog.EndedByItself {
			t.Errorf("%s: %s: ended: %v", tt.signal, tt.ending, values["ended"])
		}
		log, err := os.ReadFile(filepath.Join(b.host, "volumes", tt.name, "log"))
		if string(log) != "in order\n" || err != nil {
			t.Errorf("%s: %s: it wrote %q, %v", tt.signal, tt.ending, log, err)
		}
	}

	archive := testenv.BusyboxThatSays(t, map[string]any{"StopSignal": "SIGNONE"})
	images["none"] = sal.Image{Path: archive.Path, Format: "oci", SHA256: archive.SHA256, Bytes: archive.Bytes}
	if _, err := b.do("container.create", "none", map[string]any{"image": "none"}); writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), "SIGNONE") {
		t.Errorf("an image with an unknown stop signal: %v", err)
	}
}

func TestKilledContainersAreReported(t *testing.T) {
	b := newFixture(t, "")
	b.driver.Grace = guard // longer than each grace below
	deaf := map[string]any{"image": "busybox", "command": []any{"sh", "-c", `trap "" TERM; echo up; while :; do sleep 1000; done`}}
	killed := func(what string, values map[string]any, want any) {
		t.Helper()
		if values["ended"] != want {
			t.Errorf("%s: ended: %v, want %v", what, values["ended"], want)
		}
	}
	up := func() {
		b.eventually("it is up", func() bool { return strings.Contains(b.log("web"), "up") })
	}
	killed("create", b.must("container.create", "web", deaf), nil)
	up()
	before := b.sh("web", "cat /proc/1/stat")
	deaf["grace_seconds"] = int64(1)
	killed("another grace", b.must("container.create", "web", deaf), nil)
	if now := b.sh("web", "cat /proc/1/stat"); strings.Fields(now)[21] != strings.Fields(before)[21] {
		t.Error("a change of the grace replaced the container")
	}
	deaf["memory_mib"] = int64(600)
	killed("replacement", b.must("container.create", "web", deaf), catalog.EndedByForce)
	up()
	killed("stop", b.must("container.stop", "web", map[string]any{"grace_seconds": int64(1)}), catalog.EndedByForce)
	killed("another stop", b.must("container.stop", "web", map[string]any{"grace_seconds": int64(1)}), catalog.EndedByForce)
	delete(deaf, "grace_seconds")
	b.must("container.create", "web", deaf)
	b.must("container.start", "web", nil)
	up()
	killed("delete", b.must("container.delete", "web", map[string]any{"grace_seconds": int64(1)}), catalog.EndedByForce)
}

// endless writes a line for each signal SIGTERM, and does not end.
var endless = []any{"sh", "-c", `trap "echo asked >>/data/log" TERM; echo up; while :; do sleep 1000 & wait; done`}

// A project must not delay the maintenance of other resources by the grace of a container, which may be an hour.
func TestKeepWaitsForNoProgram(t *testing.T) {
	b := newFixture(t, "")
	resource := saltest.Resource(writ.KindContainer, "web")
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "command": endless, "volumes": []any{mount("web", "/data")}, "grace_seconds": int64(3600),
	})
	b.eventually("it is up", func() bool { return strings.Contains(b.log("web"), "up") })
	b.interrupted(b.request("container.delete", "web", nil, nil), "ask the process to end")
	keep := func() []sal.Drift {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), guard)
		defer cancel()
		drift, err := b.driver.Keep(ctx, resource)
		if err != nil {
			t.Fatal(err)
		}
		return drift
	}
	for range 3 {
		if drift := keep(); len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "may run until") {
			t.Errorf("a slow program: %+v", drift)
		}
	}
	b.eventually("it was asked", func() bool { _, err := os.Stat(filepath.Join(b.host, "volumes/web/log")); return err == nil })
	if log, err := os.ReadFile(filepath.Join(b.host, "volumes/web/log")); string(log) != "asked\n" || err != nil {
		t.Errorf("it wrote %q, %v", log, err)
	}
	r, err := recordsIn(b.driver.Dir).Get(resource)
	if err != nil {
		t.Fatal(err)
	}
	r.Own.Ending.Until = time.Now()
	if err := recordsIn(b.driver.Dir).Put(r); err != nil {
		t.Fatal(err)
	}
	if drift := keep(); len(drift) != 1 || !drift[0].Mended {
		t.Errorf("after its time: %+v", drift)
	}
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// Keep restarts a container in another network namespace, whatever its policy. The program takes its time to end.
func TestSlowProgramIsRestartedAfterItsEnd(t *testing.T) {
	b := newFixture(t, "")
	resource := saltest.Resource(writ.KindContainer, "web")
	b.must("container.create", "web", map[string]any{
		"image": "busybox", "command": endless, "volumes": []any{mount("web", "/data")}, "restart": "never",
	})
	r, err := recordsIn(b.driver.Dir).Get(resource)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{
		Driver: b.driver, daemon: b.driver.client, Request: sal.Request{Resource: resource, Progress: func(string) {}}, keeps: true,
	}
	ctx := j.in(t.Context())
	if _, waits := errors.AsType[*stillEnding](j.end(ctx, r, r.Own.Container, time.Hour)); !waits {
		t.Fatal("it does not wait for the program")
	}
	if drift, err := b.driver.Keep(t.Context(), resource); len(drift) > 0 || err != nil {
		t.Errorf("while it ends: %+v, %v", drift, err)
	}
	task, err := j.task(ctx, r.Own.Container)
	if err == nil {
		err = j.signal(ctx, task, syscall.SIGKILL, guard)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.mends(resource, otherNetwork)
	if r, err = recordsIn(b.driver.Dir).Get(resource); err != nil || r.Own.Ending != nil {
		t.Errorf("it still waits for %+v, %v", r.Own.Ending, err)
	}
	b.must("container.delete", "web", nil)
}
