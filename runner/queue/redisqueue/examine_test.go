package redisqueue

import (
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

func TestBadRedisSettingsAreFound(t *testing.T) {
	t.Parallel()
	server := testenv.RedisWithPassword(t)
	admin, q := client(t, server.URL), open(t, server.URL)
	examine := func(want ...string) {
		t.Helper()
		version, found, err := q.Examine(t.Context())
		if err != nil || len(found) != len(want) {
			t.Fatalf("version %q, %+v, %v; want %d findings", version, found, err, len(want))
		}
		for i, f := range found {
			if !strings.Contains(f.What, want[i]) || f.Fix == "" {
				t.Errorf("found %+v, want %q", f, want[i])
			}
		}
	}
	examine("maxmemory is 0", "maxmemory-clients is 0", "proto-max-bulk-len is more", "acllog-max-len is more", "slowlog-max-len is more")
	for name, value := range map[string]string{"maxmemory": "1gb", "maxmemory-clients": "64mb", "proto-max-bulk-len": "16mb", "acllog-max-len": "8", "slowlog-max-len": "8"} {
		if err := admin.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	examine()
	for name, value := range map[string]string{"maxmemory-policy": "volatile-lru", "appendonly": "no"} {
		if err := admin.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	examine("maxmemory-policy is volatile-lru", "appendonly is no")

	if err := admin.ACLSetUser(t.Context(), "blind", "on", ">x", "~*", "&*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	q = open(t, as(server.URL, "blind", "x"))
	examine("cannot be read")
	q = open(t, testenv.Redis(t).URL)
	examine("maxmemory is 0", "maxmemory-clients is 0", "proto-max-bulk-len is more", "acllog-max-len is more", "slowlog-max-len is more", "no password")
	q = open(t, startEmbedded(t))
	examine("version is unknown")
	server.Kill()
	if _, _, err := open(t, server.URL).Examine(t.Context()); writ.CodeOf(err) != writ.CodeQueueUnavailable {
		t.Errorf("without Redis: %v", err)
	}
}

func TestCommandsOfRedisAreCounted(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL
	admin, q := client(t, url), open(t, url)
	before, err := CommandCounts(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := admin.Eval(t.Context(), "return redis.call('ECHO', 'x')", nil).Err(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := CommandCounts(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eval", "echo"} {
		if n := after[name] - before[name]; n != 3 {
			t.Errorf("%s was counted %d times", name, n)
		}
	}
}
