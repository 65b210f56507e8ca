package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/netdev"
	"writ/sal/saltest"
)

// ranFile is a file below the host's directory. Each execution of a test program appends a line to it.
const ranFile = "volumes/data/ran"

// batch returns the arguments of a program with the volume data, which first records that it runs.
func batch(line string) map[string]any {
	return map[string]any{
		"image": "busybox", "memory_mib": int64(64), "volumes": []any{mount("data", "/data")},
		"command": []any{"sh", "-c", "echo ran >>/data/ran; " + line},
	}
}

// waitsFor is a program that ends when the file go is in its volume.
const waitsFor = "echo begun; while [ ! -e /data/go ]; do sleep 0.1; done; echo done; echo wrong >&2; exit 3"

// ran returns the number of executions of test programs.
func (b *fixture) ran() int {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.host, ranFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
	return strings.Count(string(text), "ran")
}

// lets makes a file in the volume of test programs, or removes it.
func (b *fixture) lets(exist bool) {
	b.Helper()
	path := filepath.Join(b.host, "volumes", "data", "go")
	err := os.Remove(path)
	if exist {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
}

// started calls an operation, and returns once its program runs. The function returns the answer.
func (b *fixture) started(ctx context.Context, r sal.Request) (answer func() (sal.Outcome, error)) {
	b.Helper()
	before, d := b.ran(), b.driver
	type result struct {
		sal.Outcome
		err error
	}
	done := make(chan result, 1)
	go func() {
		o, err := d.Do(ctx, r)
		done <- result{o, err}
	}()
	b.eventually("the program runs", func() bool { return b.ran() > before })
	return func() (sal.Outcome, error) {
		b.Helper()
		select {
		case got := <-done:
			return got.Outcome, got.err
		case <-time.After(guard):
			b.Fatal("the call does not end")
			return sal.Outcome{}, nil
		}
	}
}

// attempt returns a request for an attempt of the call "migrate".
func (b *fixture) attempt(number, known int, args map[string]any) sal.Request {
	b.Helper()
	r := b.request("container.run", "migrate", args, nil)
	r.Call = sal.CallHistory{Attempt: number, Known: known}
	return r
}

// leftNothing checks that no container, file or record is left.
func (b *fixture) leftNothing(when string) {
	b.Helper()
	if left := traces(b, b.driver, b.daemon, b.host); len(left) > 0 {
		b.Errorf("%s: left are %v", when, left)
	}
	for _, dir := range []string{"containers", "records", "stages"} {
		if left, err := os.ReadDir(filepath.Join(b.driver.Dir, dir)); len(left) > 0 {
			b.Errorf("%s: left in %s are %v, %v", when, dir, left, err)
		}
	}
}

// Promise: Networks and containers: `container.run` returns the exit code and the output of its program, and leaves no
// container, layer, network namespace or file.
// How: The result is stored first, and deleted when the runner has recorded it.
func TestProgramRunsToItsEnd(t *testing.T) {
	b := newFixture(t, "")
	networks := &netdev.Driver{
		Dir: filepath.Join(b.host, "networks"), Overlay: overlay{}, Netns: testenv.Netns(t), Namespaces: filepath.Join(b.host, "namespaces"),
	}
	r := b.request("network.create", "lan", map[string]any{"ipv4": "10.77.0.0/24"}, nil)
	r.Resource.Kind = writ.KindNetwork
	if _, err := networks.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.driver.Networks = networks
	args := batch("hostname; echo $FROM_IMAGE $A; ip -6 addr show scope global | grep -o '400:[^/]*'; echo wrong >&2; exit 3")
	args["check"] = false
	args["env"] = map[string]any{"A": "b"}
	args["networks"] = []any{map[string]any{"kind": "network", "name": "lan", "uid": string(r.UID)}}
	run := b.request("container.run", "migrate", args, nil)
	o, err := b.driver.Do(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(o.Values["stdout"].(string)), "\n")
	address, err := netip.ParseAddr(lines[len(lines)-1])
	if err != nil || !netip.MustParsePrefix("400:aaaa:1:1:ff0f::/80").Contains(address) {
		t.Errorf("it has the address %q", lines)
	}
	if diff := cmp.Diff([]string{"migrate", "yes b"}, lines[:len(lines)-1]); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
	want := map[string]any{
		"name": "migrate", "uid": "uid-of-migrate", "simulated": false, "exit_code": int64(3), "stderr": "wrong\n", "out_of_memory": false,
		"stdout": o.Values["stdout"],
	}
	if diff := cmp.Diff(want, o.Values); diff != "" {
		t.Errorf("the result:\n%s", diff)
	}
	b.leftNothing("after the call")
	if owners, err := networks.Owners(t.Context()); err != nil || len(owners) > 0 {
		t.Errorf("left are the namespaces of %v, %v", owners, err)
	}
	results := filepath.Join(b.driver.Dir, "results")
	if kept, err := os.ReadDir(results); err != nil || len(kept) != 1 {
		t.Errorf("before its answer is recorded, %v results are kept, %v", kept, err)
	}
	if err := b.driver.DeleteResult(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadDir(results); err != nil || len(kept) > 0 {
		t.Errorf("then %v are kept, %v", kept, err)
	}
}

// Promise: Networks and containers: An exit code other than 0 of `container.run` fails the call with PROGRAM_FAILED,
// the code and the end of the output, without secrets.
func TestFailedProgramFailsItsCall(t *testing.T) {
	b := newFixture(t, "")
	secrets := map[catalog.Secret]string{"db@1": "s3cr3t-of-the-database"}
	for name, c := range map[string]struct {
		line  string
		wants []string
	}{
		"both outputs": {"echo out; echo no database at $PASSWORD >&2; exit 7", []string{"exit code 7", "; its error output ends with: no database at <secret db>"}},
		"one output":   {"echo $PASSWORD; exit 1", []string{"exit code 1; its output ends with: <secret db>"}},
		"silent":       {"exit 2", []string{"ended with exit code 2"}},
		"long":         {"yes $PASSWORD | head -n 100000 >&2; exit 1", []string{"<secret db>\n<secret db>"}},
		"memory":       {"exec " + hog, []string{"exit code 137, killed by the kernel at its memory limit"}},
	} {
		args := batch(c.line)
		args["env"] = map[string]any{"PASSWORD": map[string]any{"secret": "db@1"}}
		r := b.request("container.run", "migrate", args, secrets)
		r.UID = writ.UID(strings.ReplaceAll(name, " ", "-"))
		_, err := b.driver.Do(t.Context(), r)
		e := writ.AsError(err)
		if e == nil || e.Code != writ.CodeProgramFailed || e.Retryable() || !strings.Contains(e.Hint, "check: false") {
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
	}
	b.leftNothing("after failures")
	if err := filepath.WalkDir(b.driver.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "s3cr3t") {
			t.Errorf("%s has the secret", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	// A program that cannot be started is an error of the arguments, with any check.
	args := batch("")
	args["command"], args["check"] = []any{"no-such-program"}, false
	if _, err := b.do("container.run", "none", args); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("a missing program: %v", err)
	}
	b.leftNothing("after a missing program")
}

// The end of both outputs is complete, and no secret is cut.
func TestLongOutputOfProgramIsCut(t *testing.T) {
	b := newFixture(t, "")
	secret := strings.Repeat("0123456789abcdef", 300)
	args := batch("yes $PASSWORD | head -c 100000; yes 0123456 | head -n 1000000 >&2; echo last >&2")
	args["env"] = map[string]any{"PASSWORD": map[string]any{"secret": "db@1"}}
	o, err := b.driver.Do(t.Context(), b.request("container.run", "migrate", args, map[catalog.Secret]string{"db@1": secret}))
	if err != nil {
		t.Fatal(err)
	}
	errors, output := o.Values["stderr"].(string), o.Values["stdout"].(string)
	if len(errors) != maxOutput || !strings.HasSuffix(errors, "0123456\nlast\n") {
		t.Errorf("the error output has %d bytes and ends with %q", len(errors), errors[max(0, len(errors)-20):])
	}
	if strings.Count(output, "<secret db>") < 4 || strings.Contains(strings.TrimSuffix(output, output[strings.LastIndex(output, "\n")+1:]), "0123456789abcdef") {
		t.Errorf("the output is %q", output)
	}
}

// Promise: Networks and containers: The program of `container.run` runs at most once for a call, also if runner or
// containerd are killed, and its result is kept.
// How: The node records the start first, and the result before it removes the container.
// Also: TestConformance, TestLaterAttemptReturnsTheResult.
func TestProgramOutlivesRunnerAndDaemon(t *testing.T) {
	b := newFixture(t, "")
	args := batch(waitsFor)
	args["check"] = false
	migrate := saltest.Resource(writ.KindContainer, "migrate")
	finished := func(when string, o sal.Outcome, err error) {
		t.Helper()
		if err != nil || o.Values["exit_code"] != int64(3) || o.Values["stdout"] != "begun\ndone\n" || o.Values["stderr"] != "wrong\n" {
			t.Errorf("%s: %v, %v", when, o.Values, err)
		}
		b.leftNothing(when)
	}

	ctx, stop := context.WithCancelCause(t.Context())
	answer := b.started(ctx, b.attempt(1, 0, args))
	stop(sal.ErrStopping)
	if _, err := answer(); !errors.Is(err, context.Canceled) {
		t.Errorf("the runner stops: %v", err)
	}
	b.reopen()
	if drift := b.drift("migrate"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	users, err := b.driver.Users(t.Context(), "data")
	if diff := cmp.Diff([]sal.User{{Owner: sal.Owner{Resource: migrate, UID: "uid-of-migrate"}, Running: true}}, users); diff != "" || err != nil {
		t.Errorf("the users of the volume: %v\n%s", err, diff)
	}
	b.daemon.Kill()
	b.lets(true) // it ends while both are away
	b.daemon.Start()
	o, err := b.driver.Do(t.Context(), b.attempt(1, 0, args))
	finished("a later runner", o, err)

	b.lets(false)
	again := b.attempt(1, 0, args)
	again.UID = "another-call"
	answer = b.started(t.Context(), again)
	b.daemon.Kill()
	b.lets(true)
	b.daemon.Start()
	o, err = answer()
	finished("a later daemon", o, err)
	if ran := b.ran(); ran != 2 {
		t.Errorf("two calls ran %d programs", ran)
	}
}

func TestLaterAttemptReturnsTheResult(t *testing.T) {
	b := newFixture(t, "")
	args := batch("exit 3")
	for i, c := range []struct{ attempt, known, ran int }{
		{1, 0, 1}, {1, 0, 1}, {2, 0, 1},
		{3, 2, 2}, // the supervisor knows that it failed, and a person has resumed the run
		{3, 2, 2}, {4, 2, 2},
	} {
		b.reopen()
		_, err := b.driver.Do(t.Context(), b.attempt(c.attempt, c.known, args))
		if writ.CodeOf(err) != writ.CodeProgramFailed || b.ran() != c.ran {
			t.Errorf("case %d: the program ran %d times, want %d: %v", i, b.ran(), c.ran, err)
		}
	}
	b.leftNothing("after all attempts")
}

// Promise: Networks and containers: The program of a cancelled or expired `container.run` ends with the call.
func TestProgramEndsWithItsCall(t *testing.T) {
	b := newFixture(t, "")
	args := batch(`trap "echo asked >>/data/asked; exit 0" TERM; sleep 1000 & wait`)
	ctx, cancel := context.WithCancel(t.Context())
	answer := b.started(ctx, b.attempt(1, 0, args))
	cancel()
	if _, err := answer(); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(b.host, "volumes", "data", "asked")); string(text) != "asked\n" {
		t.Errorf("its program was not asked to end: %q, %v", text, err)
	}
	b.leftNothing("after the call")
	if _, err := b.driver.Do(t.Context(), b.attempt(2, 0, args)); writ.CodeOf(err) != writ.CodeOutcomeUnknown || b.ran() != 1 {
		t.Errorf("another attempt: %v, and it ran %d times", err, b.ran())
	}
	args["command"] = []any{"sh", "-c", `trap "" TERM; echo ran >>/data/ran; sleep 1000`} // it must be killed
	ctx, cancel = context.WithTimeout(t.Context(), guard)
	answer = b.started(ctx, b.attempt(3, 2, args))
	cancel()
	if _, err := answer(); !errors.Is(err, context.Canceled) || b.ran() != 2 {
		t.Errorf("a known failure: %v, and it ran %d times", err, b.ran())
	}
	b.leftNothing("after a deaf program")
}

// A program whose process vanished may have ended in any way.
func TestLostProgramIsNotRepeated(t *testing.T) {
	b := newFixture(t, "")
	args := batch(waitsFor)
	args["check"] = false
	for _, c := range []struct {
		name       string
		uid        writ.UID
		repeatable bool
		step       string // at which the runner was killed; "" while the program runs
		want       writ.Code
		ran        int
	}{
		{"while it runs", "one", false, "", writ.CodeOutcomeUnknown, 1},
		{"while it runs, and may be repeated", "two", true, "", "", 2},
		{"before it started", "three", false, "start the program", writ.CodeOutcomeUnknown, 0},
	} {
		b.lets(false)
		before := b.ran()
		r := b.attempt(1, 0, args)
		r.UID, r.Call.Repeatable = c.uid, c.repeatable
		if c.step != "" {
			b.interrupted(r, c.step)
		} else {
			ctx, stop := context.WithCancelCause(t.Context())
			answer := b.started(ctx, r)
			stop(sal.ErrStopping)
			_, _ = answer()
			b.reopen()
		}
		b.restartsNode("migrate")
		b.lets(true)
		_, err := b.driver.Do(t.Context(), r)
		if writ.CodeOf(err) != c.want || b.ran()-before != c.ran {
			t.Errorf("%s: %v, and it ran %d times", c.name, err, b.ran()-before)
		}
		b.leftNothing(c.name)
	}
}

// restartsNode ends all processes of a container, and the daemon forgets them, as after a restart of the node.
func (b *fixture) restartsNode(name string) {
	b.Helper()
	resource := saltest.Resource(writ.KindContainer, name)
	r, err := recordsIn(b.driver.Dir).Get(resource)
	if err != nil || r == nil {
		b.Fatal(r, err)
	}
	j, done, err := begin(b.Context(), b.driver, sal.Request{Resource: resource, Progress: func(string) {}}, b.driver.locks.Take, b.driver.reach)
	if err != nil {
		b.Fatal(err)
	}
	defer done()
	if err := j.end(b.driver.in(b.Context()), nil, r.Own.Container, 0); err != nil {
		b.Fatal(err)
	}
}

// Keep leaves a program alone whose job may come again, and ends it when its time limit is over.
func TestForgottenProgramEndsAtItsTimeLimit(t *testing.T) {
	b := newFixture(t, "")
	args := batch("sleep 1000")
	ctx, stop := context.WithCancelCause(t.Context())
	answer := b.started(ctx, b.attempt(1, 0, args))
	stop(sal.ErrStopping)
	_, _ = answer()
	b.reopen()
	if drift := b.drift("migrate"); drift != "" || b.handle("migrate")["state"] != running {
		t.Errorf("before: %q, %v", drift, b.handle("migrate"))
	}
	b.exceedsLimit("migrate")
	if drift := b.drift("migrate"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	b.leftNothing("after its time limit")
	if _, err := b.driver.Do(t.Context(), b.attempt(2, 0, args)); writ.CodeOf(err) != writ.CodeOutcomeUnknown || b.ran() != 1 {
		t.Errorf("a later attempt: %v, and it ran %d times", err, b.ran())
	}
}

// exceedsLimit moves the time limit of a program to the past.
func (b *fixture) exceedsLimit(name string) {
	b.Helper()
	r, err := recordsIn(b.driver.Dir).Get(saltest.Resource(writ.KindContainer, name))
	if err == nil {
		r.Own.Run.Until = time.Now()
		err = recordsIn(b.driver.Dir).Put(r)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// The output of a program is not stored if containerd has lost the secrets in it.
func TestOutputIsNotStoredWithoutSecrets(t *testing.T) {
	b := newFixture(t, "")
	args := batch("echo $A; exit 3")
	args["check"], args["env"] = false, map[string]any{"A": map[string]any{"secret": "a@1"}}
	secrets := map[catalog.Secret]string{"a@1": "s3cr3t"}
	request := b.request("container.run", "migrate", args, secrets)
	b.interrupted(request, "remove the process")
	ctx, id := b.driver.in(t.Context()), request.Resource.HostName()+"-1"
	daemon, err := b.driver.reach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&job{Driver: b.driver, daemon: daemon, Request: request}).end(ctx, nil, id, 0); err != nil {
		t.Fatal(err)
	}
	if err := daemon.ContainerService().Delete(ctx, id); err != nil { // as `ctr containers rm`
		t.Fatal(err)
	}
	b.exceedsLimit("migrate")
	if drift := b.drift("migrate"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	b.leftNothing("after its time limit")
	o, err := b.driver.Do(t.Context(), request)
	if err != nil || o.Values["stdout"] != "" || o.Values["exit_code"] != int64(3) || b.ran() != 1 {
		t.Errorf("a later attempt: %v, %v, and it ran %d times", o.Values, err, b.ran())
	}
}

// A program that ended while no call waited returns its result also after its time limit, without secrets.
func TestForgottenResultIsReturned(t *testing.T) {
	b := newFixture(t, "")
	args := batch("echo $A; exit 3")
	args["check"], args["env"] = false, map[string]any{"A": map[string]any{"secret": "a@1"}}
	secrets := map[catalog.Secret]string{"a@1": "s3cr3t"}
	request := func(number int) sal.Request {
		r := b.request("container.run", "migrate", args, secrets)
		r.Call = sal.CallHistory{Attempt: number}
		return r
	}
	b.interrupted(request(1), "record that the container is finished")
	b.exceedsLimit("migrate")
	if drift := b.drift("migrate"); drift != "" {
		t.Errorf("drift: %s", drift)
	}
	b.leftNothing("after its time limit")
	kept, err := filepath.Glob(filepath.Join(b.driver.Dir, "results", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || strings.Contains(string(text), "s3cr3t") {
		t.Errorf("it is kept as %s, %v", text, err)
	}
	for attempt := range 2 {
		o, err := b.driver.Do(t.Context(), request(attempt+2))
		if err != nil || o.Values["stdout"] != "<secret a>\n" || o.Values["exit_code"] != int64(3) || b.ran() != 1 {
			t.Errorf("a later attempt: %v, %v, and it ran %d times", o.Values, err, b.ran())
		}
	}
}

func TestNameOfProgramIsReserved(t *testing.T) {
	b := newFixture(t, "")
	args := batch(waitsFor)
	args["check"] = false
	b.must("container.create", "web", map[string]any{"image": "busybox", "command": waits})
	if _, err := b.do("container.run", "web", args); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("the name of a container: %v", err)
	}
	b.must("container.delete", "web", nil)

	ctx, stop := context.WithCancelCause(t.Context())
	first := b.attempt(1, 0, args)
	answer := b.started(ctx, first)
	stop(sal.ErrStopping)
	_, _ = answer()
	b.reopen()
	second := b.attempt(1, 0, args)
	second.UID = "another-call"
	if _, err := b.driver.Do(t.Context(), second); writ.CodeOf(err) != writ.CodeResourceBusy {
		t.Errorf("the name of a program that runs: %v", err)
	}
	create := b.request("container.create", "migrate", map[string]any{"image": "busybox", "command": waits}, nil)
	create.UID = "a-container"
	if _, err := b.driver.Do(t.Context(), create); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("a container with the name of a program: %v", err)
	}
	b.lets(true)
	b.eventually("it has ended", func() bool { return b.handle("migrate")["state"] == stopped })
	for _, r := range []sal.Request{second, first} { // the result of the first one is kept
		if o, err := b.driver.Do(t.Context(), r); err != nil || o.Values["stdout"] != "begun\ndone\n" || o.Values["uid"] != string(r.UID) {
			t.Errorf("%s: %v, %v", r.UID, o.Values, err)
		}
	}
	if b.ran() != 2 {
		t.Errorf("two calls ran %d programs", b.ran())
	}
	b.leftNothing("after both")
}

func TestFencedProgramEnds(t *testing.T) {
	b := newFixture(t, "")
	ctx, stop := context.WithCancelCause(t.Context())
	answer := b.started(ctx, b.attempt(1, 0, batch("sleep 1000")))
	stop(sal.ErrStopping)
	_, _ = answer()
	b.reopen()
	for range 2 {
		if err := b.driver.Fence(t.Context(), saltest.Resource(writ.KindContainer, "migrate")); err != nil {
			t.Fatal(err)
		}
	}
	b.leftNothing("after the fence")
}

// A result is deleted a day after the last possible job of its call. A clock that jumps ahead deletes none before.
func TestOldResultsAreDeleted(t *testing.T) {
	t.Parallel()
	results := &sal.Results{Dir: t.TempDir()}
	now := time.Now()
	resource := saltest.Resource(writ.KindContainer, "migrate")
	for _, days := range []int{0, 1, 2, 3} {
		err := results.Put(resource, writ.UID(fmt.Sprint("call-", days)), sal.Ended{Until: now.Add(-time.Duration(days)*24*time.Hour - time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		entries, err := os.ReadDir(results.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for _, c := range []struct {
		now  time.Time
		job  time.Time // the last time of its call
		want int
	}{
		{now, time.Time{}, 4}, // unknown
		{now.Add(1000 * time.Hour), now.Add(-48 * time.Hour), 3},
		{now.Add(1000 * time.Hour), now.Add(-24 * time.Hour), 2},
		{now.Add(-24 * time.Hour), now.Add(time.Hour), 2},
		{now, now.Add(time.Hour), 1},
	} {
		if err := results.Prune(c.now, sal.CallHistory{Until: c.job}); err != nil || kept() != c.want {
			t.Errorf("%v: %d results are kept, want %d, %v", c, kept(), c.want, err)
		}
	}
}
