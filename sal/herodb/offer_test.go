//go:build linux

package herodb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// A weak engine never gets the password of a script.
func TestWeakEngineServesOnlyIfNamed(t *testing.T) {
	b := newFixture(t)
	b.Look = func(name string) (string, error) { return "/bin/true", nil }
	herodb := with(spec, "engines", []any{"hero_redis"})
	e := b.refuse("herodb.create", herodb, writ.CodeDriverMissing)
	if !strings.Contains(e.Message, "shows its secret") || !strings.Contains(e.Hint, "--engines redis-server,valkey-server,hero_redis") {
		t.Errorf("%v (%s)", e, e.Hint)
	}
	if about := b.Describe(); strings.Contains(about.Detail, "hero_redis") || !slices.ContainsFunc(about.Engines, func(e writ.Engine) bool {
		return e.Name == "hero_redis" && strings.HasPrefix(e.Refused, "it shows its secret")
	}) {
		t.Errorf("it is described as %+v", about)
	}
	b.Engines = []string{"redis-server"}
	if e := b.refuse("herodb.create", herodb, writ.CodeDriverMissing); !strings.Contains(e.Message, "--engines does not name it") {
		t.Errorf("%v", e)
	}
	b.Engines = []string{"hero_redis"}
	if about := b.Describe(); !strings.Contains(about.Detail, "hero_redis unknown (it shows its secret") || about.Engines[0] != (writ.Engine{Name: "hero_redis", Version: unknownVersion}) {
		t.Errorf("where it is allowed it is described as %+v", about)
	}
	b.refuse("herodb.create", with(herodb, "password", map[string]any{"secret": "db@1"}), writ.CodeArgumentsInvalid)
}

// The order of the script has priority.
//
// Promise: Databases: A database is created on a node with an engine of its script's list, in that order, and on the
// node of its network.
// How: Nodes report their engines; placement compares as the driver does.
// Also: TestDatabaseKeepsAWithdrawnEngine, TestDatabaseIsCreatedOnNodeWithEngine, TestDatabaseIsCreatedOnNodeOfNetwork.
func TestANodeOffersItsEnginesInItsOwnOrder(t *testing.T) {
	b := newFixture(t)
	redis := testenv.Need(t, "redis-server")
	valkey := filepath.Join(t.TempDir(), "valkey-server")
	if err := os.WriteFile(valkey, fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Server v=9.1.2' || exec %s \"$@\"\n", redis), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Look = func(name string) (string, error) {
		path, ok := map[string]string{"redis-server": redis, "valkey-server": valkey, "hero_redis": "/bin/true"}[name]
		if !ok {
			return "", exec.ErrNotFound
		}
		return path, nil
	}
	for _, c := range []struct {
		offered, asked []string
		version, want  string
	}{
		{nil, nil, "", "redis-server"},
		{nil, []string{"valkey-server", "redis-server"}, "", "valkey-server"},
		{[]string{"valkey-server", "redis-server"}, nil, "", "valkey-server"},
		{[]string{"valkey-server", "redis-server"}, nil, "7", "redis-server"},
		{[]string{"valkey-server", "redis-server"}, []string{"redis-server", "valkey-server"}, "", "redis-server"},
		{[]string{"redis-server"}, []string{"valkey-server", "redis-server"}, "", "redis-server"},
		{[]string{"redis-server"}, []string{"valkey-server"}, "", ""},
		{nil, []string{"hero_redis"}, "", ""},
		{[]string{"hero_redis", "redis-server"}, nil, "", "hero_redis"},
		{[]string{"herodb", "redis-server"}, nil, "", "redis-server"},
	} {
		b.Engines = c.offered
		p, err := b.offer().choose(t.Context(), c.asked, c.version)
		if p.name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("of %v, with %v %s asked for, %q serves, not %q: %v", c.offered, c.asked, c.version, p.name, c.want, err)
		}
		// The supervisor decides by the node's description, with the same result.
		if does := slices.ContainsFunc(b.Describe().Engines, func(e writ.Engine) bool { return e.Does(c.asked, c.version) }); does != (c.want != "") {
			t.Errorf("offered %v, asked for %v %s: supervisor accepts the node: %t", c.offered, c.asked, c.version, does)
		}
	}
}

// A node that offers other engines for new databases keeps serving existing ones.
func TestDatabaseKeepsAWithdrawnEngine(t *testing.T) {
	b := newFixture(t)
	b.do("herodb.create", spec, writ.ChangeCreated)
	b.Engines = []string{"valkey-server"}
	b.restart()
	b.do("herodb.create", spec, writ.ChangeUnchanged)
	p := b.pid()
	if err := signal(p, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.until("it is gone", func() bool { return !jobOn(b.Driver, store).lives(p, b.own()) })
	if drift := b.keep(); len(drift) != 1 || !drift[0].Mended {
		t.Errorf("it says %+v", drift)
	}
	b.client()
}
