package redisqueue

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// evals collects the scripts sent to Redis with EVAL because it did not know them.
type evals struct {
	mu    sync.Mutex
	texts map[string]bool
}

func (e *evals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e *evals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (e *evals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" {
			e.mu.Lock()
			e.texts[cmd.Args()[1].(string)] = true
			e.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// The scripts of a node are determined by running all its operations at a Redis without scripts, with an account that
// may use EVAL.
//
// Promise: Nodes and Redis: A node cannot load a script into Redis, and loaded scripts end soon with any arguments.
// How: Its account lacks `EVAL`; the supervisor loads the scripts for runners, and again after Redis lost them.
// Also: TestTheScriptsOfAsynqAreThoseOfItsSource, TestScriptsEndForAnyInputOfNodes,
// TestWorkContinuesAfterRedisLosesScripts, TestANodesAccountReachesOnlyItsKeys.
func TestLoadedScriptsAreThoseInUse(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	used := &evals{texts: map[string]bool{}}
	traffic(t, testNode, supervisor, admin, server.URL, allOfAsynq, func() bool { return false }, used)
	loaded := map[string]bool{}
	for _, s := range nodeScripts() {
		loaded[s.text] = true
	}
	for text := range used.texts {
		if !loaded[text] {
			t.Errorf("a node uses a script that is not loaded: %s", text)
		}
	}
	if len(used.texts) < len(loaded)/2 {
		t.Errorf("the node used %d of %d scripts", len(used.texts), len(loaded))
	}
}

// Some of asynq's scripts run once a day, or in situations that no test can trigger: they are compared with its source.
func TestTheScriptsOfAsynqAreThoseOfItsSource(t *testing.T) {
	file, _ := runtime.FuncForPC(reflect.ValueOf(asynq.NewServer).Pointer()).FileLine(0)
	source, err := os.ReadFile(filepath.Join(filepath.Dir(file), "internal", "rdb", "rdb.go"))
	if err != nil {
		t.Skipf("the source of asynq is not there (built with -trimpath?): %v", err)
	}
	for name, s := range asynqScripts {
		if !strings.Contains(string(source), "`"+s.text+"`") {
			t.Errorf("asynq has no such script: %s", name)
		}
	}
}

// applyAccounts makes the accounts of nodes.
func applyAccounts(t *testing.T, q *Queue, accounts map[writ.NodeID]string) *Accounts {
	t.Helper()
	a := q.Accounts(testDatacenter)
	if err := a.Apply(t.Context(), accounts); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWorkContinuesAfterRedisLosesScripts(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	all := map[writ.NodeID]string{testNode: "mine"}
	accounts := applyAccounts(t, supervisor, all)
	w := startWorker(t, as(server.URL, accounts.User(testNode), "mine"), released())
	push := func(id string) {
		t.Helper()
		if err := supervisor.Push(t.Context(), testNode, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	push("a")
	w.next("a")
	if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	push("b")
	if err := accounts.Apply(t.Context(), all); err != nil { // runs every second
		t.Fatal(err)
	}
	w.next("b")
}

// A node calls every loaded script with arbitrary keys and arguments.
func TestScriptsEndForAnyInputOfNodes(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	accounts := applyAccounts(t, supervisor, map[writ.NodeID]string{testNode: "mine"})
	options, err := redis.ParseURL(as(server.URL, accounts.User(testNode), "mine"))
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries, options.ReadTimeout = -1, guard
	node := redis.NewClient(options)
	t.Cleanup(func() { _ = node.Close() })
	many := make([]any, 5000)
	for i := range many {
		many[i] = strings.Repeat("x", 8)
	}
	list := key(testNode, "list")
	for range 40 {
		if err := node.RPush(t.Context(), list, many...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	one := key(testNode, "one")
	for _, s := range nodeScripts() {
		for _, k := range []string{list, one} {
			node.Del(t.Context(), one)
			node.RPush(t.Context(), one, "1")
			node.HSet(t.Context(), key(testNode, taskKey+"1"), "msg", "x")
			keys := []string{k, key(testNode, "nothing"), k, k, k, k, k, k, k}
			args := append([]any{key(testNode, taskKey), key(testNode, taskKey), "1e18", "1e18", "1e18", "1e18", "1e18"}, many...)
			_ = node.EvalSha(t.Context(), s.Hash(), keys, args...).Err()
			args[0] = "1e18"
			_ = node.EvalSha(t.Context(), s.Hash(), keys, args...).Err()
		}
	}
	if err := admin.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Redis: %v", err)
	}
}
