package containerd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// webServer serves the files of /www on port 80. They are in a volume, so a test can change the answers.
const webServer = "exec httpd -f -p 80 -h /www"

// checked returns the arguments of a container with a web server and a health check.
func checked(line string, check map[string]any) map[string]any {
	return map[string]any{
		"image": "busybox", "volumes": []any{mount("www", "/www")}, "command": []any{"sh", "-c", line}, "health": check,
	}
}

// quick returns a check with short times and these fields.
func quick(fields map[string]any) map[string]any {
	all := map[string]any{"interval_seconds": int64(1), "timeout_seconds": int64(1), "retries": int64(2), "start_seconds": int64(1)}
	maps.Copy(all, fields)
	return all
}

// slow returns a check with enough time for a command on a busy host and these fields.
func slow(fields map[string]any) map[string]any {
	all := quick(map[string]any{"interval_seconds": int64(5), "timeout_seconds": int64(5)})
	maps.Copy(all, fields)
	return all
}

// page returns a check of a file below /www.
func page(name string) map[string]any {
	return quick(map[string]any{"http": "/" + name, "port": int64(80)})
}

// www returns the path of a file below /www.
func (b *fixture) www(name string) string { return filepath.Join(b.host, "volumes", "www", name) }

func (b *fixture) write(name, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(b.www(name)), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(b.www(name), []byte(text), 0o755); err != nil {
		b.Fatal(err)
	}
}

// runs calls Run of the driver until the test ends or stop is called.
func (b *fixture) runs() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d := b.driver
	go func() {
		defer close(ended)
		if err := d.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	b.Cleanup(stop)
	return stop
}

// unhealthy calls an operation that fails with UNHEALTHY, and returns the error.
func (b *fixture) unhealthy(operation, name string, args map[string]any) *writ.Error {
	b.Helper()
	o, err := b.do(operation, name, args)
	if writ.CodeOf(err) != writ.CodeUnhealthy {
		b.Fatalf("%s: %v, %v", operation, o, err)
	}
	return writ.AsError(err)
}

// drift returns the lasting drift that Keep finds.
func (b *fixture) drift(name string) string {
	b.Helper()
	found, err := b.driver.Keep(b.Context(), saltest.Resource(writ.KindContainer, name))
	if err != nil {
		b.Fatal(err)
	}
	var all []string
	for _, f := range found {
		if !f.Mended {
			all = append(all, f.What)
		}
	}
	return strings.Join(all, "; ")
}

// Promise: Networks and containers: A container with a health check is created only when it is healthy: by HTTP, by a
// TCP connection or by a command.
// How: The node probes it inside its network namespace; a failed create removes it.
// Also: TestUnhealthyContainerIsNotCreated, TestInterruptedCheckIsRepeated.
func TestCreateWaitsUntilHealthy(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	b.write("ok", "fine")
	late := "sleep 1; " + webServer
	patient := func(fields map[string]any) map[string]any {
		all := slow(fields)
		all["start_seconds"] = int64(60)
		return all
	}
	for name, check := range map[string]map[string]any{
		"http":    patient(map[string]any{"http": "/ok", "port": int64(80)}),
		"tcp":     patient(map[string]any{"tcp": int64(80)}),
		"command": patient(map[string]any{"command": []any{"sh", "-c", "wget -q -O /dev/null http://127.0.0.1/ok"}}),
	} {
		args := checked(late, check)
		if v := b.must("container.create", name, args); v["health"] != "healthy" || v["state"] != running {
			t.Errorf("%s: it is %v, %v", name, v["state"], v["health"])
		}
		b.sh(name, "wget -q -O - http://127.0.0.1/ok")
		o, err := b.do("container.create", name, args)
		if err != nil || o.Change != writ.ChangeUnchanged {
			t.Errorf("%s, again: %s, %v", name, o.Change, err)
		}
		b.must("container.stop", name, map[string]any{"grace_seconds": int64(0)})
		if v := b.handle(name); v["health"] != nil {
			t.Errorf("%s: a stopped container is %v", name, v["health"])
		}
		if v := b.must("container.start", name, nil); v["health"] != "healthy" {
			t.Errorf("%s: a started container is %v", name, v["health"])
		}
	}
	if v := b.must("container.create", "plain", map[string]any{"image": "busybox", "command": waits}); v["health"] != nil {
		t.Errorf("without a check it is %v", v["health"])
	}
}

func TestUnhealthyContainerIsNotCreated(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	before := traces(t, b.driver, b.daemon, b.host)
	b.write("cgi-bin/fails", "#!/bin/sh\nprintf 'Status: 503 Away\\r\\n\\r\\nno database at s3cr3t'\n")
	long := strings.Repeat("line\\n", 100)
	for name, c := range map[string]struct {
		line  string
		check map[string]any
		wants []string
	}{
		"refused": {`trap "exit 0" TERM; echo up; sleep 1000 & wait`, quick(map[string]any{"tcp": int64(81)}), []string{"connection refused at port 81", "its output ends with: up"}},
		"missing": {webServer, page("missing"), []string{"status 404 for /missing on port 80"}},
		"status":  {webServer, page("cgi-bin/fails"), []string{`status 503 for /cgi-bin/fails on port 80: "no database at <secret db>"`}},
		"command": {
			webServer, slow(map[string]any{"command": []any{"sh", "-c", "printf '" + long + "'; echo out; echo $PASSWORD >&2; exit 7"}}),
			[]string{"the command ended with exit code 7", "line; out; <secret db>"},
		},
		"late":   {webServer, quick(map[string]any{"interval_seconds": int64(5), "command": []any{"sleep", "100"}}), []string{"the command did not end within 1s"}},
		"absent": {webServer, slow(map[string]any{"command": []any{"no-such-program"}}), []string{"no-such-program"}},
		"ends":   {"echo gone; exit 3", quick(map[string]any{"tcp": int64(81)}), []string{"exit code 3", "its output ends with: gone"}},
	} {
		args := checked(c.line, c.check)
		args["env"] = map[string]any{"PASSWORD": map[string]any{"secret": "db@1"}}
		r := b.request("container.create", name, args, map[catalog.Secret]string{"db@1": "s3cr3t"})
		_, err := b.driver.Do(t.Context(), r)
		e := writ.AsError(err)
		if e == nil || e.Code != writ.CodeUnhealthy || e.Retryable() || !strings.Contains(e.Hint, "removed") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(e.Message, want) {
				t.Errorf("%s: the message lacks %q: %s", name, want, e.Message)
			}
		}
		if strings.Contains(e.Message, "s3cr3t") || len(e.Message) > 2000 {
			t.Errorf("%s: the message has %d bytes: %s", name, len(e.Message), e.Message)
		}
		if seen, err := b.driver.Observe(t.Context(), r.Resource); err != nil || seen.Exists {
			t.Errorf("%s is left: %+v, %v", name, seen, err)
		}
	}
	if diff := cmp.Diff(before, traces(t, b.driver, b.daemon, b.host)); diff != "" {
		t.Errorf("they left something behind:\n%s", diff)
	}
	if left, err := os.ReadDir(filepath.Join(b.driver.Dir, "containers")); len(left) > 0 {
		t.Errorf("they left files: %v, %v", left, err)
	}
}

// The program of a container that never restarts cannot become healthy after its end.
func TestEndedProgramFailsAtOnce(t *testing.T) {
	b := newFixture(t, "")
	args := checked("echo gone; exit 3", map[string]any{"tcp": int64(80), "start_seconds": int64(3600)})
	args["restart"] = "never"
	if e := b.unhealthy("container.create", "web", args); !strings.Contains(e.Message, "its program has ended with exit code 3") {
		t.Error(e)
	}
	args["restart"] = "on-failure" // and a restarted one can
	args["command"] = []any{"sh", "-c", "[ -e /www/second ] && " + webServer + "; touch /www/second; exit 3"}
	if v := b.must("container.create", "web", args); v["health"] != "healthy" || v["last_exit_code"] != int64(3) {
		t.Errorf("it is %v, with exit code %v", v["health"], v["last_exit_code"])
	}
}

// Promise: Networks and containers: If a replacement with a health check does not become healthy, the replaced container
// runs again.
// How: The old container is stopped, and deleted only after the new one is healthy.
func TestUnhealthyReplacementIsReverted(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	b.write("ok", "fine")
	old := checked(webServer, page("ok"))
	b.must("container.create", "web", old)
	b.sh("web", "echo kept >/mark")
	bad := checked("echo broken; "+webServer, page("missing"))
	e := b.unhealthy("container.create", "web", bad)
	if !strings.Contains(e.Message, "status 404") || !strings.Contains(e.Message, "broken") || !strings.Contains(e.Hint, "the previous container is unchanged") {
		t.Errorf("%s, %s", e.Message, e.Hint)
	}
	if got := b.sh("web", "cat /mark; wget -q -O - http://127.0.0.1/ok"); got != "kept\nfine" {
		t.Errorf("the container before has %q", got)
	}
	if drift := b.drift("web"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	o, err := b.do("container.create", "web", old)
	if err != nil || o.Change != writ.ChangeUnchanged || o.Values["health"] != "healthy" {
		t.Errorf("the earlier script: %s, %v, %v", o.Change, o.Values["health"], err)
	}
	b.must("container.stop", "web", nil)
	b.unhealthy("container.create", "web", bad)
	if v := b.handle("web"); v["state"] != stopped {
		t.Errorf("a container that was stopped before is %v", v["state"])
	}
	good := checked("echo new; "+webServer, page("ok"))
	if o, err := b.do("container.create", "web", good); err != nil || o.Change != writ.ChangeUpdated {
		t.Errorf("a healthy replacement: %s, %v", o.Change, err)
	}
	if got := b.sh("web", "ls /mark 2>&1 || true"); !strings.Contains(got, "No such file") {
		t.Errorf("the container was not replaced: %s", got)
	}
	b.must("container.delete", "web", nil)
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// A new check needs no new container. It counts only if the container passes it.
func TestCheckOfARunningContainerChanges(t *testing.T) {
	b := newFixture(t, "")
	b.write("ok", "fine")
	b.must("container.create", "web", checked(webServer, page("ok")))
	b.sh("web", "echo kept >/mark")
	if e := b.unhealthy("container.create", "web", checked(webServer, page("missing"))); !strings.Contains(e.Hint, "writ logs container/web") {
		t.Errorf("%s, %s", e.Message, e.Hint)
	}
	for name, c := range map[string]struct {
		check  map[string]any
		change writ.Change
		health any
	}{
		"the same":  {page("ok"), writ.ChangeUnchanged, "healthy"},
		"a new one": {quick(map[string]any{"tcp": int64(80)}), writ.ChangeUpdated, "healthy"},
		"none":      {nil, writ.ChangeUpdated, nil},
	} {
		args := checked(webServer, c.check)
		if c.check == nil {
			delete(args, "health")
		}
		b.must("container.create", "web", checked(webServer, page("ok")))
		if o, err := b.do("container.create", "web", args); err != nil || o.Change != c.change || o.Values["health"] != c.health {
			t.Errorf("%s: %s, %v, %v", name, o.Change, o.Values["health"], err)
		}
	}
	b.sh("web", "cat /mark")
}

// Promise: Networks and containers: The health of a running container is probed, and a change is reported within its
// retries; a restarted runner knows it.
// How: Each container has its own schedule; the record keeps the last state.
// Also: sal/containerd/health.TestHealthChangesAfterRetries, sal/containerd/health.TestSlowContainerDelaysNoOther.
func TestHealthOfARunningContainerFollowsIt(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	b.write("ok", "fine")
	checks := map[string]map[string]any{
		"web": page("ok"),
		"cmd": slow(map[string]any{"retries": int64(1), "command": []any{"cat", "/www/ok"}}),
	}
	for name, check := range checks {
		b.must("container.create", name, checked(webServer, check))
	}
	stop := b.runs()
	is := func(name string, health any) {
		t.Helper()
		b.eventually(fmt.Sprintf("%s is %v", name, health), func() bool { return b.handle(name)["health"] == health })
	}
	if err := os.Remove(b.www("ok")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"web": "it is unhealthy: status 404 for /ok on port 80",
		"cmd": `it is unhealthy: the command ended with exit code 1: "cat: can't open '/www/ok': No such file or directory"`,
	} {
		is(name, "unhealthy")
		if got := b.drift(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: the drift is %q, want %q", name, got, want)
		}
		if v := b.handle(name); v["state"] != running || v["last_exit_code"] != int64(-1) {
			t.Errorf("%s was restarted: %v", name, v)
		}
	}

	stop()
	b.reopen()
	is("web", "unhealthy")
	if got := b.drift("web"); !strings.HasPrefix(got, "it is unhealthy: status 404") {
		t.Errorf("after a restart of the runner, the drift is %q", got)
	}
	b.runs()
	b.drift("cmd")
	b.write("ok", "fine")
	for name := range checks {
		is(name, "healthy")
		if got := b.drift(name); got != "" {
			t.Errorf("%s: the drift is %q", name, got)
		}
	}

	kill(b, "web") // Run restarts it
	b.eventually("it is restarted", func() bool { return b.handle("web")["last_exit_code"] == int64(137) })
	is("web", "healthy")
	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(0)})
	is("web", nil)
	for name := range checks {
		b.must("container.delete", name, nil)
	}
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// A program of a probe must not delay the end of its container, and its own container must not end it by mistake.
func TestProbeYieldsToOperations(t *testing.T) {
	b := newFixture(t, "")
	b.write("ok", "")
	const probe = "echo $$ >>/www/runs; [ -e /www/ok ] || { touch /www/blocked; sleep 1000; }"
	b.must("container.create", "web", checked(webServer, map[string]any{
		"interval_seconds": int64(300), "timeout_seconds": int64(300), "command": []any{"sh", "-c", probe},
	}))
	b.reopen() // so that the next probe is soon
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, "web"))
	if err != nil {
		t.Fatal(err)
	}
	r.Own.Health = nil
	if err := recordsIn(b.driver.Dir).Put(r); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.www("ok")); err != nil {
		t.Fatal(err)
	}
	b.runs()
	blocked := func() bool { _, err := os.Stat(b.www("blocked")); return err == nil }
	b.eventually("a probe runs", blocked)
	b.sh("web", "true")
	if drift := b.drift("web"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	if got := b.sh("web", "ps | grep -c '[s]leep 1000'"); got != "1\n" {
		t.Errorf("after exec and a scan, the probe has %q processes", got)
	}
	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(0)})
	b.must("container.delete", "web", nil)
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// interrupted runs an operation until a step, and then the driver ends as if it was killed.
func (b *fixture) interrupted(r sal.Request, step string) {
	b.Helper()
	if !b.interruptedWhen(r, func(name string) bool { return name == step }) {
		b.Fatalf("the step %q was not reached", step)
	}
}

// interruptedWhen is interrupted at the first step for which `at` returns true. It returns false if there was none.
func (b *fixture) interruptedWhen(r sal.Request, at func(step string) bool) bool {
	b.Helper()
	ended := make(chan bool, 1)
	b.driver.Step = func(name string) {
		if at(name) {
			b.Logf("interrupted before: %s", name)
			ended <- true
			select {} // this goroutine, and the lock that it holds, belong to a dead process
		}
	}
	defer b.reopen()
	d := b.driver
	go func() {
		if _, err := d.Do(context.WithoutCancel(b.Context()), r); err != nil {
			b.Logf("%s: %v", r.Operation.Name(), err)
		}
		ended <- false
	}()
	select {
	case at := <-ended:
		return at
	case <-time.After(guard):
		b.Fatalf("the step was not reached in %s", guard)
		return false
	}
}

// interruptions are the steps of a checked create or replacement around its wait.
var interruptions = []string{"record that the container is checking", "start the process", "wait until it is healthy", "record that the container is ready"}

// A runner that is killed while it waits leaves a container that the repeated call finishes, or removes if it fails.
func TestInterruptedCheckIsRepeated(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	b.write("ok", "fine")
	web := saltest.Resource(writ.KindContainer, "web")
	for _, step := range interruptions {
		t.Run(step, func(t *testing.T) {
			good := b.request("container.create", "web", checked(webServer, page("ok")), nil)
			b.interrupted(good, step)
			seen, err := b.driver.Observe(t.Context(), web)
			if err != nil || !seen.Exists || step == "wait until it is healthy" && seen.Values["health"] != "starting" {
				t.Errorf("it is seen as %+v, %v", seen, err)
			}
			drift := b.drift("web")
			if !strings.Contains(drift, "repeat the call that creates it") {
				t.Errorf("drift: %q", drift)
			}
			o, err := b.driver.Do(t.Context(), good)
			if err != nil || o.Change != writ.ChangeCreated || o.Values["health"] != "healthy" {
				t.Errorf("the repeated call: %s, %v, %v", o.Change, o.Values, err)
			}
			b.must("container.delete", "web", nil)

			bad := b.request("container.create", "web", checked(webServer, page("missing")), nil)
			if step != "record that the container is ready" {
				b.interrupted(bad, step)
				if _, err := b.driver.Do(t.Context(), bad); writ.CodeOf(err) != writ.CodeUnhealthy {
					t.Errorf("the repeated call: %v", err)
				}
				if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
					t.Errorf("left are %v", left)
				}
				b.interrupted(bad, step) // and now it is deleted instead
				if _, err := b.do("container.delete", "web", nil); err != nil {
					t.Error(err)
				}
				if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
					t.Errorf("after a delete, left are %v", left)
				}
			}
		})
	}
}

func TestInterruptedReplacementIsFinishedOrReverted(t *testing.T) {
	testenv.Nightly(t, "TestInterruptedCheckIsRepeated of package sal/containerd")
	b := newFixture(t, "")
	b.write("ok", "fine")
	old := checked("echo old; "+webServer, page("ok"))
	b.must("container.create", "web", old)
	next := checked("echo new; "+webServer, page("ok"))
	for i, step := range []string{
		"record that the container is checking", "ask the process to end", "remove the process", "start the process", "wait until it is healthy",
		"record that the container is starting",
	} {
		t.Run(step, func(t *testing.T) {
			b.sh("web", "echo kept >/mark")
			next["cpus"] = int64(2 + i) // another replacement each time
			r := b.request("container.create", "web", next, nil)
			b.interrupted(r, step)
			b.mends(r.Resource, "its replacement was interrupted and reverted")
			if got := b.sh("web", "cat /mark"); got != "kept\n" {
				t.Errorf("the container before has %q", got)
			}
			b.interrupted(r, step)
			o, err := b.driver.Do(t.Context(), r)
			if err != nil || o.Change != writ.ChangeUpdated || o.Values["health"] != "healthy" {
				t.Errorf("the repeated call: %s, %v, %v", o.Change, o.Values, err)
			}
			if drift := b.drift("web"); drift != "" {
				t.Errorf("drift: %s", drift)
			}
		})
	}
	next["cpus"] = int64(1)
	r := b.request("container.create", "web", next, nil)
	b.interrupted(r, "delete the container") // after the new one was healthy
	b.mends(r.Resource, "its start was interrupted")
	if o, err := b.driver.Do(t.Context(), r); err != nil || o.Change != writ.ChangeUnchanged {
		t.Errorf("the repeated call: %s, %v", o.Change, err)
	}
	b.must("container.delete", "web", nil)
	if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// A kill before any step of a create or replacement, successful or not, is repeated or undone.
func TestCheckedContainerSurvivesAKillAtEachStep(t *testing.T) {
	testenv.Nightly(t, "TestInterruptedCheckIsRepeated of package sal/containerd")
	for name, c := range map[string]struct {
		before  bool   // there is a container before
		page    string // that decides
		undoing bool   // any other operation comes first
	}{
		"create": {false, "ok", false}, "failed create": {false, "missing", false},
		"replacement": {true, "ok", false}, "failed replacement": {true, "missing", false},
		"forgotten replacement": {true, "ok", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, "")
			b.write("ok", "fine")
			web := saltest.Resource(writ.KindContainer, "web")
			for stop, reached := 1, true; reached; stop++ {
				if c.before {
					b.must("container.create", "web", checked(fmt.Sprintf("echo %d; %s", stop, webServer), page("ok")))
				}
				r := b.request("container.create", "web", checked("echo next; "+webServer, page(c.page)), nil)
				steps := 0
				reached = b.interruptedWhen(r, func(string) bool { steps++; return steps == stop })
				if c.undoing {
					if _, err := b.driver.Keep(t.Context(), web); err != nil {
						t.Errorf("step %d: %v", stop, err)
					}
				}
				o, err := b.driver.Do(t.Context(), r)
				switch {
				case c.page == "ok" && (err != nil || o.Values["health"] != "healthy"):
					t.Fatalf("step %d: %v, %v", stop, o, err)
				case c.page != "ok" && writ.CodeOf(err) != writ.CodeUnhealthy:
					t.Fatalf("step %d: %v, %v", stop, o, err)
				}
				if c.before && c.page != "ok" {
					if o, err := b.do("container.create", "web", checked(fmt.Sprintf("echo %d; %s", stop, webServer), page("ok"))); err != nil || o.Change != writ.ChangeUnchanged {
						t.Fatalf("step %d: the container before is not restored: %v, %v", stop, o, err)
					}
				}
				if drift, err := b.driver.Keep(t.Context(), web); err != nil || len(drift) > 0 {
					t.Errorf("step %d: the drift is %v, %v", stop, drift, err)
				}
				if c.before || c.page == "ok" {
					b.sh("web", "wget -q -O - http://127.0.0.1/ok")
				}
				if !c.before && c.page == "ok" {
					b.must("container.delete", "web", nil)
				}
				if seen, err := b.driver.Observe(t.Context(), web); err != nil || seen.Exists != c.before {
					t.Errorf("step %d: left is %+v, %v", stop, seen, err)
				}
				if orphans, err := b.driver.Orphans(t.Context()); err != nil || len(orphans) > 0 {
					t.Errorf("step %d: orphans are %v, %v", stop, orphans, err)
				}
			}
			if c.before {
				b.must("container.delete", "web", nil)
			}
			if left := traces(t, b.driver, b.daemon, b.host); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}
