//go:build linux

package herodb

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/saltest"
)

// fixture is a driver on its own host, with one database, "store".
type fixture struct {
	*testing.T
	*Driver
	host string
}

func newFixture(t *testing.T) *fixture {
	testenv.Need(t, "redis-server")
	host := testenv.Home(t, "h \u00a0#")
	if err := os.Chmod(host, 0o711); err != nil { // users of engines pass through it
		t.Fatal(err)
	}
	b := &fixture{t, driverOn(t, host, nil), host}
	t.Cleanup(func() { wipe(t, host) })
	return b
}

// restart replaces the driver, like a restarted runner.
func (b *fixture) restart() {
	next := &Driver{Dir: b.Dir, Trees: b.Trees, Networks: b.Networks, Accounts: b.Accounts, FirstPort: b.FirstPort, LastPort: b.LastPort, Engines: b.Engines, Look: b.Look}
	next.children.all = maps.Clone(b.children.all) // children of this process, which continues
	b.Driver = next
}

var store = saltest.Resource(writ.KindHeroDB, "store")

// try executes an operation on the database, with the UID "u1".
func (b *fixture) try(operation string, args map[string]any) (sal.Outcome, error) {
	b.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		b.Fatalf("unknown operation %s", operation)
	}
	decoded, err := o.DecodeWith(args, map[catalog.Secret]string{"db@1": givenPassword})
	if err != nil {
		b.Fatal(err)
	}
	return b.Do(b.Context(), sal.Request{Operation: o, Resource: store, UID: "u1", Args: decoded, Progress: func(string) {}})
}

// do executes an operation that must succeed with a change.
func (b *fixture) do(operation string, args map[string]any, want writ.Change) map[string]any {
	b.Helper()
	outcome, err := b.try(operation, args)
	if err != nil {
		b.Fatalf("%s: %s: %v", operation, writ.CodeOf(err), err)
	}
	if outcome.Change != want {
		b.Errorf("%s: change = %q, want %q", operation, outcome.Change, want)
	}
	return outcome.Values
}

// refuse executes an operation that must fail with a code, and returns the error.
func (b *fixture) refuse(operation string, args map[string]any, want writ.Code) *writ.Error {
	b.Helper()
	_, err := b.try(operation, args)
	if writ.CodeOf(err) != want {
		b.Fatalf("%s: got %q (%v), want %s", operation, writ.CodeOf(err), err, want)
	}
	e, _ := errors.AsType[*writ.Error](err)
	if e.Hint == "" {
		b.Errorf("%s: %v has no hint", operation, err)
	}
	return e
}

// keep runs Keep.
func (b *fixture) keep() []sal.Drift {
	b.Helper()
	drift, err := b.Keep(b.Context(), store)
	if err != nil {
		b.Fatal(err)
	}
	return drift
}

const givenPassword = "canary-of-the-script"

// own reads the record.
func (b *fixture) own() own {
	b.Helper()
	r, err := b.records().Get(store)
	if err != nil || r == nil {
		b.Fatalf("the record: %v, %v", r, err)
	}
	return r.Own
}

// secret returns the generated secret.
func (b *fixture) secret() string {
	b.Helper()
	a, err := jobOn(b.Driver, store).openAccess(b.own().Secret)
	if err != nil {
		b.Fatal(err)
	}
	return a.Secret
}

// pid returns the process that serves.
func (b *fixture) pid() pid {
	b.Helper()
	p, err := jobOn(b.Driver, store).process(b.own())
	if err != nil || p == (pid{}) {
		b.Fatalf("no process serves: %v", err)
	}
	return p
}

// login connects to the database like a client.
func (b *fixture) login(secret string) (*client, error) {
	b.Helper()
	v, err := b.Observe(b.Context(), store)
	if err != nil {
		b.Fatal(err)
	}
	address, _ := v.Values["address"].(string)
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	c := &client{conn, bufio.NewReader(conn)}
	b.Cleanup(c.close)
	_, err = c.ask(b.Context(), "AUTH", secret)
	return c, err
}

// client connects with the current secret.
func (b *fixture) client() *client {
	b.Helper()
	c, err := b.login(b.secret())
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// ask sends a command and fails the test if it is refused.
func (b *fixture) ask(c *client, words ...string) any {
	b.Helper()
	v, err := c.ask(b.Context(), words...)
	if err != nil {
		b.Fatalf("%v: %v", words, err)
	}
	return v
}

// until waits for an event in another process.
func (b *fixture) until(what string, is func() bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for !is() {
		if sleep.For(ctx, maxPoll) != nil {
			b.Fatalf("after a minute still not: %s", what)
		}
	}
}

// changeRecord edits the record file directly.
func (b *fixture) changeRecord(change func(o *own)) {
	b.Helper()
	path := filepath.Join(b.Dir, "records", store.HostName()+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	r := new(sal.Record[own])
	if err := json.Unmarshal(text, r); err != nil {
		b.Fatal(err)
	}
	change(&r.Own)
	if err := b.records().Put(r); err != nil {
		b.Fatal(err)
	}
}
