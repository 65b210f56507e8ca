package containerd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal/catalog"
	"writ/sal/containerd/health"
	"writ/sal/saltest"
)

// replica returns the arguments of a container that shares port 8080 and has a health check.
func replica(name string) map[string]any {
	args := serving(name)
	args["publish"] = []any{map[string]any{"port": int64(8080), "to": int64(80), "protocol": "tcp", "share": "web"}}
	return args
}

// served returns the number of answers of port 8080 by name, of n requests. Other answers have the name "".
func (b publishing) served(n int) map[string]int {
	count := map[string]int{}
	for range n {
		_, body, _ := strings.Cut(b.answers(8080), "\r\n\r\n")
		count[strings.TrimSpace(body)]++
	}
	return count
}

// serves waits until port 8080 is answered by exactly these containers.
func (b publishing) serves(when string, names ...string) {
	b.Helper()
	var count map[string]int
	for end := time.Now().Add(guard); ; {
		count = b.served(24 * (len(names) + 1)) // enough to notice another one
		if slices.Equal(slices.Sorted(maps.Keys(count)), names) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s: %v answer, want %v", when, count, names)
		}
	}
}

// Promise: Networks and containers: A container gets connections of a shared port only while it is healthy. If all are
// unhealthy, all get them. A container that is stopped or deleted loses no request.
// How: The node follows its health and its program, and removes it from the port before it ends.
// Also: TestInterruptedReplicaLeavesOrServes, TestRemovalKeepsNewConnectionOfReusedPort.
func TestSharedPortFollowsHealth(t *testing.T) {
	t.Parallel()
	b := newPublishing(t)
	before := traces(t, b.driver, b.daemon, b.host)
	b.runs()
	for _, name := range []string{"a", "b", "c"} {
		args := replica(name)
		if name == "b" {
			args["publish"] = append(args["publish"].([]any), map[string]any{"port": int64(8081), "to": int64(81), "protocol": "tcp"})
		}
		b.must("container.create", name, args)
	}
	b.serves("all are created", "a", "b", "c")
	b.sh("a", "mv /www/name /www/gone") // the probe gets status 404
	b.serves("a is unhealthy", "b", "c")
	if testenv.IsNightly() {
		changesOfHealth(b)
	}
	b.sh("a", "mv /www/gone /www/name")
	b.serves("a is healthy", "a", "b", "c")

	stop := b.load(8080)
	b.must("container.stop", "a", map[string]any{"grace_seconds": int64(5)})
	b.serves("a is stopped", "b", "c")
	b.must("container.start", "a", nil)
	b.serves("a is started", "a", "b", "c")
	b.must("container.delete", "c", nil)
	b.serves("c is deleted", "a", "b")
	noneFailed(t, stop(), "a", "b", "c")
	for _, name := range []string{"a", "b"} {
		b.must("container.delete", name, nil)
	}
	if left := traces(t, b.driver, b.daemon, b.host); len(left) != len(before) || b.owners() != 0 {
		t.Errorf("left are %v and %d network namespaces", left, b.owners())
	}
}

// A project must not delay the maintenance of other resources by open connections.
func TestKeepWaitsForNoConnection(t *testing.T) {
	t.Parallel()
	b := newPublishing(t)
	args := replica("a")
	args["command"] = []any{"sh", "-c", `trap "" TERM; while :; do nc -l -p 80 -e sleep 1000; done`}
	args["grace_seconds"] = int64(3600)
	delete(args, "health")
	b.must("container.create", "a", args)
	held, err := b.dial(8080)
	for until := time.Now().Add(time.Minute); err != nil && time.Now().Before(until); held, err = b.dial(8080) {
		time.Sleep(10 * time.Millisecond) // the container has no health check, so its program may not listen yet
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	request := b.request("container.delete", "a", nil, nil)
	b.interrupted(request, "set the readiness")
	for range 3 {
		began := time.Now()
		drift, err := b.driver.Keep(t.Context(), request.Resource)
		if err != nil || len(drift) != 1 || drift[0].Mended || !strings.Contains(drift[0].What, "may run until") {
			t.Errorf("%+v, %v", drift, err)
		}
		if took := time.Since(began); took >= drainLimit {
			t.Errorf("it took %s", took)
		}
	}
	b.must("container.delete", "a", map[string]any{"grace_seconds": int64(1)})
}

// changesOfHealth changes the health of containers a, b and c. a is unhealthy before and after it.
func changesOfHealth(b publishing) {
	b.Helper()
	b.sh("a", "mv /www/gone /www/name")
	b.serves("a is healthy again", "a", "b", "c")

	ended := make(chan error, 1)
	go func() { // holds the lock of the container
		_, err := b.do("container.exec", "b", map[string]any{"command": []any{"sh", "-c", "mv /www/name /www/gone; nc -l -p 81"}})
		ended <- err
	}()
	b.serves("b becomes unhealthy during an operation", "a", "c")
	c, err := b.dial(8081) // ends the program
	if err != nil {
		b.Fatal(err)
	}
	_ = c.Close()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	for _, name := range []string{"a", "c"} {
		b.sh(name, "mv /www/name /www/gone")
	}
	b.eventually("all are unhealthy", func() bool {
		return !slices.ContainsFunc([]string{"a", "b", "c"}, func(name string) bool { return b.handle(name)["health"] != "unhealthy" })
	})
	if got := b.answers(8080); !strings.Contains(got, "404") {
		b.Errorf("all are unhealthy, and the port answers %q", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		b.sh(name, "mv /www/gone /www/name")
	}
	b.serves("all are healthy again", "a", "b", "c")

	b.sh("a", "mv /www/name /www/gone")
	b.serves("a is unhealthy again", "b", "c")
}

// noneFailed checks that each request was answered by one of these containers.
func noneFailed(t *testing.T, answers map[string]int, names ...string) {
	t.Helper()
	t.Logf("answers: %v", answers)
	for text, n := range answers {
		if !slices.Contains(names, text) {
			t.Errorf("%d requests: %s", n, text)
		}
	}
}

// Promise: Networks and containers: A rolling update of containers that share a port loses no request, and a version that
// does not become healthy leaves the others serving.
// How: Each container is handed over as with a port of its own.
func TestRollingUpdateLosesNoRequest(t *testing.T) {
	testenv.Nightly(t, "TestSharedPortFollowsHealth and TestHandoverLosesNoRequest of package sal/containerd")
	b := newPublishing(t)
	b.runs()
	names := []string{"web-1", "web-2", "web-3"}
	update := func(version string) {
		t.Helper()
		for _, name := range names {
			args := replica(name + version)
			if name == "web-3" { // two programs cannot write to a volume, so its replacement stops the old container first
				args["volumes"] = []any{mount("data", "/data")}
			}
			if o, err := b.do("container.create", name, args); err != nil || o.Values["health"] != "healthy" {
				t.Fatalf("%s%s: %v, %v", name, version, o.Values, err)
			}
		}
	}
	update("-v0")
	stop := b.load(8080)
	update("-v1")
	b.serves("updated", "web-1-v1", "web-2-v1", "web-3-v1")
	bad := replica("bad")
	bad["health"] = page("missing")
	if e := b.unhealthy("container.create", "web-1", bad); !strings.Contains(e.Message, "status 404") {
		t.Error(e)
	}
	b.serves("after a bad version", "web-1-v1", "web-2-v1", "web-3-v1")
	var all []string
	for _, name := range names {
		all = append(all, name+"-v0", name+"-v1")
	}
	noneFailed(t, stop(), all...)
	for _, name := range names {
		if drift := b.drift(name); drift != "" {
			t.Errorf("%s: drift %s", name, drift)
		}
		b.must("container.delete", name, nil)
	}
}

// A change of the health of a container that is about to stop does not make it join the port again.
func TestLeavingContainerDoesNotJoin(t *testing.T) {
	t.Parallel()
	b := newPublishing(t)
	for _, name := range []string{"a", "b"} {
		b.must("container.create", name, replica(name))
	}
	b.serves("both are created", "a", "b")
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, "a"))
	if err != nil {
		t.Fatal(err)
	}
	b.driver.Step = func(name string) {
		if name == "record that the container is ready" { // it is about to be stopped
			if err := followHealth(t.Context(), b.driver, health.Subject{Resource: r.Resource, Container: r.Own.Container}); err != nil {
				t.Error(err)
			}
			if got := b.served(24); got["b"] != 24 {
				t.Errorf("after it has left, %v answer", got)
			}
		}
	}
	b.must("container.stop", "a", map[string]any{"grace_seconds": int64(5)})
	b.driver.Step = nil
	b.must("container.start", "a", nil)
	b.serves("a is started", "a", "b")
	if err := followHealth(t.Context(), b.driver, health.Subject{Resource: r.Resource, Container: "another"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "b"} {
		b.must("container.delete", name, nil)
	}
}

// A container without a health check gets connections while its program runs.
func TestSharedPortFollowsProgram(t *testing.T) {
	b := newPublishing(t)
	b.runs()
	var first map[string]any
	for _, name := range []string{"a", "b"} {
		args := replica(name)
		delete(args, "health")
		args["restart"] = "never"
		args["command"] = []any{"sh", "-c", "mkdir -p /www; echo " + name + " > /www/name; rm -f /end; httpd -p 80 -h /www; until test -e /end; do sleep 0.1; done"}
		b.must("container.create", name, args)
		if name == "a" {
			first = args
		}
	}
	b.serves("both are created", "a", "b")
	b.sh("a", "touch /end")
	b.serves("the program of a has ended", "b")
	b.must("container.start", "a", nil)
	b.serves("a is started", "a", "b")
	args := maps.Clone(first)
	args["publish"] = []any{map[string]any{"port": int64(8081), "to": int64(80), "protocol": "tcp"}}
	b.must("container.create", "a", args)
	b.serves("a publishes another port", "b")
	b.must("container.create", "a", first)
	b.serves("a shares the port again", "a", "b")
	for _, name := range []string{"a", "b"} {
		b.must("container.delete", name, nil)
	}
}

// A runner that is killed while a container joins or leaves a shared port leaves the other one serving. The repeated call
// finishes the change, and a scan repairs the port.
func TestInterruptedReplicaLeavesOrServes(t *testing.T) {
	testenv.Nightly(t, "TestSharedPortFollowsHealth of package sal/containerd")
	b := newPublishing(t)
	b.must("container.create", "peer", replica("peer"))
	mounted := func(name string) map[string]any {
		args := replica(name)
		args["volumes"] = []any{mount("data", "/data")}
		return args
	}
	grace := map[string]any{"grace_seconds": int64(5)}
	for _, c := range []struct {
		name, operation string
		args            map[string]any
		first           map[string]any // of the container before; nil for none
	}{
		{"create", "container.create", replica("v1"), nil},
		{"stop", "container.stop", grace, replica("v1")},
		{"delete", "container.delete", nil, replica("v1")},
		{"handover", "container.create", replica("v1"), replica("v1")},
		{"replacement", "container.create", mounted("v1"), mounted("v0")},
	} {
		at := 0
		for reached := true; reached; at++ {
			if c.first != nil {
				if c.name == "handover" {
					c.first = replica("v0")
				}
				b.must("container.create", "web", c.first)
			}
			passed := -1
			r := b.request(c.operation, "web", c.args, nil)
			reached = b.interruptedWhen(r, func(step string) bool {
				if step == "set the readiness" || strings.HasPrefix(step, "move the ports") {
					passed++
				}
				return passed == at
			})
			when := fmt.Sprintf("%s, at change %d", c.name, at)
			for _, name := range []string{"web", "peer"} {
				if _, err := b.driver.Keep(t.Context(), saltest.Resource(writ.KindContainer, name)); err != nil {
					t.Errorf("%s: keep %s: %v", when, name, err)
				}
			}
			served := b.served(24)
			noneFailed(t, served, "peer", "v0", "v1")
			now, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, "web"))
			if err != nil {
				t.Fatal(err)
			}
			if now != nil && now.Own.Phase == ready && healthOf(b.driver, now) == catalog.HealthHealthy && !now.Own.Stopped && len(served) < 2 {
				t.Errorf("%s: a healthy container does not serve", when)
			}
			if _, err := b.driver.Do(t.Context(), r); err != nil {
				t.Errorf("%s, repeated: %v", when, err)
			}
			switch c.operation {
			case "container.create":
				b.serves(when+", repeated", "peer", "v1")
			default:
				b.serves(when+", repeated", "peer")
			}
			if drift := b.drift("peer"); drift != "" {
				t.Errorf("%s: drift %s", when, drift)
			}
			b.must("container.delete", "web", nil)
			b.serves(when+", deleted", "peer")
			if t.Failed() {
				return
			}
		}
		t.Logf("%s: %d changes", c.name, at)
	}
	b.must("container.delete", "peer", nil)
	if left := b.owners(); left != 0 {
		t.Errorf("left are %d network namespaces", left)
	}
}

// The ports of a container follow its health at intervals, so that a program cannot keep the node busy.
func TestSharedPortFollowsHealthAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharing
		start := time.Now()
		var mu sync.Mutex
		passed := map[string][]int{}
		follow := func(ctx context.Context, name string) {
			if s.await(ctx, name) {
				mu.Lock()
				defer mu.Unlock()
				passed[name] = append(passed[name], int(time.Since(start)/time.Second))
			}
		}
		for range 12 { // a change each second
			go follow(t.Context(), "flaps")
			time.Sleep(time.Second)
		}
		go follow(t.Context(), "calm")
		time.Sleep(time.Minute)
		go follow(t.Context(), "flaps")
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		follow(ended, "flaps")
		want := map[string][]int{"flaps": {0, 5, 10, 15, 72}, "calm": {12}}
		if diff := cmp.Diff(want, passed); diff != "" {
			t.Error(diff)
		}
	})
}
