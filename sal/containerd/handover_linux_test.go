package containerd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// serving returns the arguments of a container that publishes port 8080 and has a health check.
func serving(name string) map[string]any {
	args := named(name, 8080)
	args["health"] = page("name")
	return args
}

// load requests a published port without a pause until stop is called, which returns the number of answers by text.
func (b publishing) load(port int) (stop func() (answers map[string]int)) {
	var ended atomic.Bool
	var clients sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	for range 4 {
		clients.Go(func() {
			for !ended.Load() {
				began := time.Now()
				text, err := b.ask(port)
				_, body, ok := strings.Cut(text, "\r\n\r\n")
				if body = strings.TrimSpace(body); err != nil || !ok || body == "" {
					body = fmt.Sprintf("failed: %v %q, began %s", err, text, began.Format("05.000"))
				}
				mu.Lock()
				count[body]++
				mu.Unlock()
			}
		})
	}
	return func() map[string]int {
		ended.Store(true)
		clients.Wait()
		return count
	}
}

func (b publishing) owners() int {
	b.Helper()
	owners, err := b.networks.Owners(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return len(owners)
}

// Promise: Networks and containers: A replacement loses no request to a published port if the container has a health
// check and writes to no volume.
// How: Both containers run until the new one is healthy; then the ports move in one transaction of the packet filter.
// Also: TestInterruptedHandoverIsFinishedOrReverted.
func TestHandoverLosesNoRequest(t *testing.T) {
	b := newPublishing(t)
	before := traces(t, b.driver, b.daemon, b.host)
	b.must("container.create", "web", serving("v0"))
	stop := b.load(8080)
	for _, name := range []string{"v1", "v2"} { // the second returns to the first side
		if o, err := b.do("container.create", "web", serving(name)); err != nil || o.Change != writ.ChangeUpdated || o.Values["health"] != "healthy" {
			t.Errorf("%s: %s, %v, %v", name, o.Change, o.Values, err)
		}
		if got := b.answers(8080); !strings.HasSuffix(got, name+"\n") {
			t.Errorf("after the replacement by %s, the port answers %q", name, got)
		}
		if b.owners() != 1 {
			t.Errorf("after the replacement by %s, there are %d network namespaces", name, b.owners())
		}
		if drift := b.drift("web"); drift != "" {
			t.Errorf("drift: %s", drift)
		}
	}
	bad := serving("bad")
	bad["health"] = page("missing")
	if e := b.unhealthy("container.create", "web", bad); !strings.Contains(e.Message, "status 404") {
		t.Error(e)
	}
	answers := stop()
	t.Logf("answers: %v", answers)
	for text := range answers {
		if text != "v0" && text != "v1" && text != "v2" {
			t.Errorf("%d requests: %s", answers[text], text)
		}
	}
	if b.owners() != 1 || answers["v2"] == 0 {
		t.Errorf("there are %d network namespaces", b.owners())
	}
	b.must("container.delete", "web", nil)
	if left := traces(t, b.driver, b.daemon, b.host); len(left) != len(before) || b.owners() != 0 {
		t.Errorf("left are %v and %d network namespaces", left, b.owners())
	}
}

// A replaced container answers on connections that were open before.
func TestHandoverKeepsOpenConnections(t *testing.T) {
	b := newPublishing(t)
	b.must("container.create", "web", serving("old"))
	c, err := b.dial(8080)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	moved := make(chan struct{})
	once := sync.OnceFunc(func() { close(moved) })
	b.driver.Step = func(name string) {
		if name == "record that the container is starting" {
			once()
		}
	}
	replaced := make(chan error, 1)
	go func() {
		_, err := b.do("container.create", "web", serving("new"))
		replaced <- err
	}()
	<-moved
	if got := b.answers(8080); !strings.HasSuffix(got, "new\n") {
		t.Errorf("a new connection is answered with %q", got)
	}
	_ = c.SetDeadline(time.Now().Add(guard))
	fmt.Fprint(c, "GET /name HTTP/1.0\r\n\r\n")
	if said, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(said), "old\n") {
		t.Errorf("the open connection is answered with %q, %v", said, err)
	}
	if err := <-replaced; err != nil {
		t.Error(err)
	}
	b.driver.Step = nil
	b.must("container.delete", "web", nil)
}

// Promise: Limits and shares: The two containers of a replacement without a gap run side by side for at most 15 minutes.
// How: A longer health check leads to a replacement with a gap.
//
// A replacement is no handover either if both containers would write to a volume, or if a port is not published by both.
func TestHandoverHasConditions(t *testing.T) {
	t.Parallel()
	ports := []catalog.Publish{{Port: 8080, To: 80}}
	writes := []catalog.Mount{{Path: "/data"}}
	reads := []catalog.Mount{{Path: "/data", ReadOnly: true}}
	with := func(volumes []catalog.Mount) catalog.ContainerCreate {
		return catalog.ContainerCreate{Publish: ports, ContainerProgram: catalog.ContainerProgram{Volumes: volumes}}
	}
	checked := func(retries int64) catalog.ContainerCreate {
		return catalog.ContainerCreate{Publish: ports, Health: catalog.Health{IntervalSeconds: 85, TimeoutSeconds: 5, Retries: retries}}
	}
	for name, c := range map[string]struct {
		old, next catalog.ContainerCreate
		want      bool
	}{
		"check of 15 minutes":   {checked(11), checked(10), true},
		"check of 16.5 minutes": {checked(10), checked(11), false},

		"both publish":   {catalog.ContainerCreate{Publish: ports}, catalog.ContainerCreate{Publish: ports}, true},
		"only the new":   {catalog.ContainerCreate{}, catalog.ContainerCreate{Publish: ports}, false},
		"only the old":   {catalog.ContainerCreate{Publish: ports}, catalog.ContainerCreate{}, false},
		"the old writes": {with(writes), with(nil), false},
		"the new writes": {with(nil), with(writes), false},
		"both read":      {with(reads), with(reads), true},
	} {
		if got := canHandOver(&c.old, &c.next); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// handoverSteps are the steps around the changes of a handover.
var handoverSteps = []string{
	"make the network namespace", "record that the container is checking", "start the process", "wait until it is healthy",
	"move the ports to the new container", "record that the container is starting",
}

// A runner that is killed in a handover leaves a container that serves. The repeated call finishes the handover, and any
// other one, or a scan, reverts it.
func TestInterruptedHandoverIsFinishedOrReverted(t *testing.T) {
	t.Parallel()
	b := newPublishing(t)
	b.must("container.create", "web", serving("v"))
	web := saltest.Resource(writ.KindContainer, "web")
	serves := func(when string, names ...string) {
		t.Helper()
		got := b.answers(8080)
		if _, body, _ := strings.Cut(got, "\r\n\r\n"); !slices.Contains(names, strings.TrimSpace(body)) {
			t.Errorf("%s: the port answers %q, want %v", when, got, names)
		}
	}
	served := "v"
	for i, step := range handoverSteps {
		next := fmt.Sprintf("v%d", i)
		r := b.request("container.create", "web", serving(next), nil)
		b.interrupted(r, step)
		serves("after the end before: "+step, served, next)
		b.mends(web, "its replacement was interrupted and reverted")
		serves("reverted before: "+step, served)
		if b.owners() != 1 {
			t.Errorf("reverted before: %s: %d network namespaces", step, b.owners())
		}
		b.interrupted(r, step)
		if o, err := b.driver.Do(t.Context(), r); err != nil || o.Change != writ.ChangeUpdated || o.Values["health"] != "healthy" {
			t.Errorf("the repeated call: %s, %v, %v", o.Change, o.Values, err)
		}
		serves("repeated before: "+step, next)
		if b.owners() != 1 || b.drift("web") != "" {
			t.Errorf("repeated before: %s: %d network namespaces, drift %q", step, b.owners(), b.drift("web"))
		}
		served = next
	}
	for i, step := range []string{"delete the container", "release the other network namespace", "record that the container is ready"} {
		last := fmt.Sprintf("last%d", i)
		b.interrupted(b.request("container.create", "web", serving(last), nil), step)
		serves("after the end before: "+step, last)
		b.mends(web, "its start was interrupted")
		serves("mended before: "+step, last)
		if b.owners() != 1 {
			t.Errorf("mended before: %s: %d network namespaces", step, b.owners())
		}
	}
	b.interrupted(b.request("container.create", "web", serving("deleted"), nil), "move the ports to the new container")
	b.must("container.delete", "web", nil)
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 || b.owners() != 0 {
		t.Errorf("left are %v and %d network namespaces", left, b.owners())
	}
}
