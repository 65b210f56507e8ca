package redisqueue

import (
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// Each error of an unsuitable Redis has the remedy, and the examination finds the cause.
func TestUnsuitableRedisIsExplained(t *testing.T) {
	t.Parallel()
	suitable := testenv.RedisWithPassword(t)
	admin := client(t, suitable.URL)
	if err := admin.ACLSetUser(t.Context(), "reader", "on", ">x", "~*", "&*", "+@all", "-@write").Err(); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(suitable.URL, "redis://:password@")
	for _, tt := range []struct {
		name, url  string
		args       []string // of another server; its URL replaces an empty one
		hint, what string   // of the error and of a finding
	}{
		{"replica", "", []string{"--replicaof", "127.0.0.1 1"}, "replica", "it is a replica of 127.0.0.1:1"},
		{"cluster", "", []string{"--cluster-enabled", "yes", "--appendonly", "no"}, "cluster-enabled no", "part of a Redis Cluster"},
		{"full", "", []string{"--maxmemory", "1"}, "raise maxmemory", ""},
		{"absent replicas", "", []string{"--min-replicas-to-write", "1"}, "min-replicas-to-write 0", ""},
		{"renamed command", "", []string{"--rename-command", "SET", "STORE"}, "rename-command", "lacks the commands set"},
		{"missing password", "redis://" + host, nil, "user and the password", ""},
		{"wrong password", "redis://:secret@" + host, nil, "user and the password", ""},
		{"few rights", "redis://reader:x@" + host, nil, "docs/manual/redis.md", ""},
		{"number of the database", strings.Replace(suitable.URL, "/0", "/99", 1), nil, "databases", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := tt.url
			if tt.args != nil {
				url = testenv.RedisWith(t, tt.args...).URL
			}
			q := open(t, url)
			err := q.SetGeneration(t.Context(), "1")
			if err == nil {
				t.Fatal("Redis accepted a write")
			}
			if e := writ.AsError(err); e.Code != writ.CodeQueueUnavailable || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("%v (%s, hint %q), want a hint with %q", err, e.Code, e.Hint, tt.hint)
			}
			if tt.what == "" {
				return
			}
			_, found, err := q.Examine(t.Context())
			for _, f := range found {
				if strings.Contains(f.What, tt.what) {
					return
				}
			}
			t.Errorf("found %+v, %v; want %q", found, err, tt.what)
		})
	}
}
