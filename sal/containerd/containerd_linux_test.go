package containerd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/imagestore"
	"writ/sal/needs"
	"writ/sal/saltest"
)

// The test binary is also the logger program of test containers.
func TestMain(m *testing.M) {
	if IsLogger(os.Args) {
		os.Exit(Logger(os.Args))
	}
	os.Exit(m.Run())
}

// waits is a program that writes a line and ends when it is asked to.
var waits = []any{"sh", "-c", `trap "exit 0" TERM; echo ready; while :; do sleep 1000 & wait; done`}

// guard limits the wait for an event that should happen at once.
const guard = 30 * time.Second

// fixture is a host with a daemon and a driver.
type fixture struct {
	testing.TB
	driver *Driver
	daemon *testenv.ContainerdServer
	host   string
}

// newFixture starts a daemon that keeps its files in root; "" means a new directory.
func newFixture(t testing.TB, root string) *fixture {
	t.Helper()
	b := &fixture{TB: t, daemon: testenv.Containerd(t, root), host: t.TempDir()}
	b.driver = open(t, b.daemon, b.host)
	return b
}

// open returns a driver on a host, like a starting runner.
func open(t testing.TB, daemon *testenv.ContainerdServer, host string) *Driver {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{
		Connection: Connection{Address: daemon.Address, Namespace: namespaceOf(host)},
		Dir:        filepath.Join(host, "containers"), Program: program,
		Images: fetched{busybox(t)}, Volumes: directories{filepath.Join(host, "volumes")}, Log: slog.New(slog.DiscardHandler), Grace: 50 * time.Millisecond,
		IDs: saltest.ContainerIDs(host), IDsAsked: true,
	}
	daemon.Uses(d.Namespace)
	t.Cleanup(func() {
		d.Close()
		_ = os.Remove("/run/containerd/runc/" + d.Namespace) // the runtime leaves it, empty
	})
	return d
}

// namespaceOf returns the daemon's namespace for a host. The runtime stores the containers of all daemons in one
// directory, so concurrent tests must not share a namespace.
func namespaceOf(host string) string { return fmt.Sprintf("writ-%x", sha256.Sum256([]byte(host)))[:16] }

// reopen replaces the driver, like a restarted runner.
func (b *fixture) reopen() {
	b.Helper()
	networks := b.driver.Networks
	b.driver = open(b, b.daemon, b.host)
	b.driver.Networks = networks
}

func (b *fixture) request(operation, name string, args map[string]any, secrets map[catalog.Secret]string) sal.Request {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("there is no %s", operation)
	}
	decoded, err := o.DecodeWith(args, secrets)
	if err != nil {
		b.Fatal(err)
	}
	return sal.Request{
		Operation: o, Resource: saltest.Resource(writ.KindContainer, name), UID: writ.UID("uid-of-" + name), Args: decoded, Key: "k", Progress: func(string) {},
	}
}

func (b *fixture) do(operation, name string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	return b.driver.Do(b.Context(), b.request(operation, name, args, nil))
}

func (b *fixture) must(operation, name string, args map[string]any) map[string]any {
	b.Helper()
	o, err := b.do(operation, name, args)
	if err != nil {
		b.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	return o.Values
}

// sh runs a shell command in a container.
func (b *fixture) sh(name, line string) string {
	b.Helper()
	v := b.must("container.exec", name, map[string]any{"command": []any{"sh", "-c", line}})
	if v["exit_code"] != int64(0) {
		b.Fatalf("%s: %v", line, v)
	}
	return v["stdout"].(string)
}

// eventually waits until happened returns true.
func (b *fixture) eventually(what string, happened func() bool) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(guard)
	for !happened() {
		select {
		case <-tick.C:
		case <-end:
			b.Fatalf("%s: not in %s", what, guard)
		}
	}
}

// traces returns everything that a daemon has in the namespace of a host, and mounts below the directories of both.
func traces(t testing.TB, d *Driver, daemon *testenv.ContainerdServer, host string) []string {
	t.Helper()
	c, err := d.open()
	if err != nil {
		t.Fatal(err)
	}
	ctx := d.in(context.WithoutCancel(t.Context()))
	var all []string
	note := func(kind, name string, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, kind+" "+name)
	}
	containers, err := c.ContainerService().List(ctx)
	for _, x := range containers {
		note("container", x.ID, err)
	}
	images, err := c.ImageService().List(ctx)
	for _, x := range images {
		note("image", x.Name, err)
	}
	kept, err := c.LeasesService().List(ctx)
	for _, x := range kept {
		note("lease", x.ID, err)
	}
	for _, name := range imagestore.Snapshotters {
		err := c.SnapshotService(name).Walk(ctx, func(_ context.Context, s snapshots.Info) error {
			note("snapshot", s.Name, nil)
			return nil
		})
		if err != nil && !imagestore.NoSnapshotter(err) {
			t.Fatal(err)
		}
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		for _, dir := range []string{host, daemon.Root + "/", filepath.Dir(daemon.Address)} {
			if strings.Contains(line, dir) {
				note("mount", strings.Fields(line)[4], err)
			}
		}
	}
	return all
}

// clear removes everything that a daemon has in the namespace of a host, in any state.
func clear(t testing.TB, d *Driver) {
	t.Helper()
	c, err := d.open()
	if err != nil {
		t.Fatal(err)
	}
	ctx := d.in(context.WithoutCancel(t.Context()))
	j := &job{Driver: d, daemon: c, Request: sal.Request{Resource: saltest.Resource(writ.KindContainer, "subject")}}
	containers, err := c.ContainerService().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range containers {
		if err := j.discard(ctx, nil, x.ID, 0); err != nil {
			t.Error(err)
		}
	}
	kept, err := c.LeasesService().List(ctx)
	for _, x := range kept {
		err = errors.Join(err, c.LeasesService().Delete(ctx, leases.Lease{ID: x.ID}))
	}
	if err := errors.Join(err, j.store().DropUnused(ctx)); err != nil {
		t.Error(err)
	}
}

// fetched is a driver of images with one image, which has every name except three.
type fetched struct{ image sal.Image }

func (i fetched) Image(_ context.Context, project writ.ProjectID, image writ.Ref) (sal.Image, error) {
	switch image.Name {
	case "none":
		return sal.Image{}, sal.Unknown(writ.ResourceID{Project: project, Kind: writ.KindImage, Name: image.Name})
	case "disk":
		return sal.Image{Path: i.image.Path, Format: "raw"}, nil
	case "broken":
		return sal.Image{Path: os.DevNull, Format: "oci", SHA256: "0"}, nil
	}
	return i.image, nil
}

// directories is a driver of volumes that makes a directory for each name.
type directories struct{ dir string }

func (v directories) Volume(_ context.Context, _ writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	dir := filepath.Join(v.dir, volume.Name)
	return sal.Volume{UID: volume.UID, Dir: dir, SizeGiB: 1}, os.MkdirAll(dir, 0o755)
}

// busybox returns an OCI archive of one layer with busybox, as an image driver fetches it.
func busybox(t testing.TB) sal.Image {
	t.Helper()
	image := testenv.Busybox(t)
	return sal.Image{Path: image.Path, Format: "oci", SHA256: image.SHA256, Bytes: image.Bytes}
}

// says runs a shell command in the subject, which writes its input, or anything else, to the output of the container.
func says(t testing.TB, d *Driver, line, input string) {
	t.Helper()
	b := &fixture{TB: t, driver: d}
	r := b.request("container.exec", "subject", map[string]any{"command": []any{"sh", "-c", line}, "stdin": input}, nil)
	r.UID = saltest.RefTo(writ.KindContainer, "subject").UID
	if o, err := d.Do(t.Context(), r); err != nil || o.Values["exit_code"] != int64(0) {
		t.Fatal(o, err)
	}
}

// Promise: Networks and containers: A runner killed at any step of a container leaves a state that the next call
// completes or removes.
// How: A record precedes every other change; a replacement is complete before the old container ends.
func TestConformance(t *testing.T) {
	t.Parallel()
	daemon := testenv.Containerd(t, testenv.HomeInMemory(t, "containerd"))
	files := map[string]any{"/etc/app/app.toml": "a = 1", "/etc/app/more": map[string]any{"text": "b", "mode": "0600", "owner": "web"}}
	spec := map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(64), "files": files}
	bigger := map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(80), "files": files}
	saltest.Run(t, saltest.Suite{
		Open: func(t testing.TB, host string, step func(string)) sal.Driver {
			d := open(t, daemon, host)
			d.Step = step
			return d
		},
		Make:      saltest.Step{Operation: "container.create", Args: spec},
		Mutable:   bigger,
		Immutable: map[string]any{"image": "busybox", "command": waits, "memory_mib": int64(64), "files": files, "volumes": []any{map[string]any{"volume": saltest.RefTo(writ.KindVolume, "v"), "path": "/v"}}},
		Steps: []saltest.Step{
			{Operation: "container.stop", Args: map[string]any{"grace_seconds": int64(0)}},
			{Operation: "container.start"},
			{Operation: "container.logs"},
			{Operation: "container.exec", Args: map[string]any{"command": []any{"wc", "-c"}, "stdin": "hello"}},
		},
		Run: saltest.Step{Operation: "container.run", Args: map[string]any{
			"image": "busybox", "command": []any{"sh", "-c", "echo x >>/v/ran; cat /etc/said; echo wrong >&2; exit 3"}, "check": false,
			"files":      map[string]any{"/etc/said": "said"},
			"memory_mib": int64(64), "volumes": []any{map[string]any{"volume": saltest.RefTo(writ.KindVolume, "v"), "path": "/v"}},
		}},
		Ran: func(t testing.TB, host string) int {
			text, err := os.ReadFile(filepath.Join(host, "volumes", "v", "ran"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			return strings.Count(string(text), "x")
		},
		Incidental: []string{"ended"},
		Log: saltest.Log{
			Operation: "container.logs",
			Write: func(t testing.TB, host, text string) {
				says(t, open(t, daemon, host), "cat > /proc/1/fd/1", text)
			},
			Flood: func(t testing.TB, host string) {
				says(t, open(t, daemon, host), "yes water | head -c 9000000 > /proc/1/fd/1", "")
			},
		},
		Sparse: true,
		Clear:  func(t testing.TB, host string) { clear(t, open(t, daemon, host)) },
		Traces: func(t testing.TB, host string) []string { return traces(t, open(t, daemon, host), daemon, host) },
	})
}

func TestAHostForContainersIsKnown(t *testing.T) {
	b := newFixture(t, "")
	look := func() map[string]needs.Finding {
		found := map[string]needs.Finding{}
		for _, f := range needs.Examine(t.Context(), "container", b.driver.Needs()) {
			found[f.Need] = f
		}
		return found
	}
	for name, f := range look() {
		if want := name != "networks on this host"; (f.State == needs.OK) != want {
			t.Errorf("%+v", f)
		}
	}
	b.daemon.Kill()
	found := look()
	for name, want := range map[string]needs.State{"the socket of containerd": needs.OK, "containerd": needs.Degraded, "a snapshotter": needs.Degraded} {
		if f := found[name]; f.State != want {
			t.Errorf("of a daemon that was killed: %+v", f)
		}
	}
}
