package redisqueue

import (
	"os"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

func manual(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/manual/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestManualListsWhatAccountsMayDo(t *testing.T) {
	text := strings.ReplaceAll(manual(t), `\|`, "|")
	for _, a := range allowances {
		if commands := strings.Join(a.commands, " "); !strings.Contains(text, "`"+commands+"`") {
			t.Errorf("the manual does not have %q", commands)
		}
	}
}

// The supervisor's user from the manual has all necessary rights.
func TestManualsUserOfTheSupervisorIsEnough(t *testing.T) {
	t.Parallel()
	server := testenv.RedisWithPassword(t)
	admin := client(t, server.URL)
	_, line, found := strings.Cut(manual(t), "\nuser supervisor ")
	line, _, _ = strings.Cut(line, "\n")
	if !found {
		t.Fatal("the manual has no user for the supervisor")
	}
	if err := admin.ACLSetUser(t.Context(), "supervisor", strings.Fields(line)...).Err(); err != nil {
		t.Fatal(err)
	}
	// The values of the manual's redis.conf, which Examine checks.
	for name, value := range map[string]string{"maxmemory": "2gb", "maxmemory-policy": "noeviction", "proto-max-bulk-len": "16mb", "acllog-max-len": "8", "slowlog-max-len": "8"} {
		if err := admin.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_ = admin.ConfigSet(t.Context(), "maxmemory-clients", "256mb") // Redis 7
	q := open(t, as(server.URL, "supervisor", "LONG-AND-RANDOM"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(q.Accounts(testDatacenter).Apply(t.Context(), map[writ.NodeID]string{testNode: "a", otherNode: "b"}))
	must(q.Accounts(testDatacenter).Apply(t.Context(), map[writ.NodeID]string{testNode: "a"}))
	_, err := q.Accounts(testDatacenter).Survey(t.Context())
	must(err)
	must(q.Accounts(testDatacenter).Clear(t.Context(), testNode))
	must(q.SetGeneration(t.Context(), "1"))
	_, err = q.Generation(t.Context())
	must(err)
	for _, id := range []string{"a", "b", "c"} {
		must(q.Push(t.Context(), testNode, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)}))
	}
	if withdrawn, err := q.Withdraw(t.Context(), testNode, "b"); err != nil || len(withdrawn) != 1 {
		t.Errorf("Withdraw = %v, %v", withdrawn, err)
	}
	if missing, err := q.Missing(t.Context(), testNode, "a", "b"); err != nil || len(missing) != 1 {
		t.Errorf("Missing = %v, %v", missing, err)
	}
	out := queue.Stream{Node: testNode, Direction: queue.Out}
	must(q.Send(t.Context(), out, []byte("x")))
	got, err := q.Receive(t.Context(), time.Second, out)
	must(err)
	must(q.Acknowledge(t.Context(), got...))
	_, wrong, err := q.Examine(t.Context())
	if err != nil || len(wrong) > 0 {
		t.Errorf("Examine = %+v, %v", wrong, err)
	}
	if entries := admin.ACLLog(t.Context(), 100).Val(); len(entries) > 0 {
		t.Errorf("Redis refused %+v", entries[0])
	}
}
