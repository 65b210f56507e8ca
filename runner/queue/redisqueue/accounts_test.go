package redisqueue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// A compromised node has its account and tries every command with it.
//
// Promise: Nodes and Redis: A compromised node can neither read nor change the Redis data of another node.
// How: Each node has a Redis user with exact commands and keys.
// Also: TestANodesAccountIsEnoughForAllItsTraffic, TestANodesAccountAllowsOnlyNeededCommands.
func TestANodesAccountReachesOnlyItsKeys(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	if err := supervisor.Accounts(testDatacenter).Apply(t.Context(), map[writ.NodeID]string{testNode: "mine", otherNode: "theirs"}); err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Push(t.Context(), otherNode, queue.Task{ID: "job", Body: []byte("not for you"), EndBy: time.Now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []queue.Direction{queue.In, queue.Out} {
		if err := supervisor.Send(t.Context(), queue.Stream{Node: otherNode, Direction: d}, []byte("not for you")); err != nil {
			t.Fatal(err)
		}
	}
	if err := supervisor.SetGeneration(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	before := keysOf(t, admin)

	node := client(t, as(server.URL, supervisor.Accounts(testDatacenter).User(testNode), "mine"))
	theirJob := key(otherNode, taskKey+"job")
	stream := func(n writ.NodeID, d queue.Direction) string { return streamKey(queue.Stream{Node: n, Direction: d}) }
	lua := func(key string, call string) []any { return []any{"EVAL", "return redis.call(" + call + ")", 1, key} }
	refused := []string{"NOPERM", "The user executing the script can't", "DEBUG command not allowed"}
	for _, command := range [][]any{
		// Jobs, state and messages of another node.
		{"HGET", theirJob, "msg"}, {"LRANGE", key(otherNode, "pending"), 0, -1}, {"RPOPLPUSH", key(otherNode, "pending"), key(otherNode, "active")},
		{"RPOPLPUSH", key(otherNode, "pending"), key(testNode, "pending")}, {"DEL", theirJob}, {"HSET", theirJob, "msg", "forged"},
		{"RPUSH", key(otherNode, "pending"), "forged"}, {"EXISTS", theirJob},
		{"XADD", stream(otherNode, queue.Out), "*", "b", "forged"}, {"XADD", stream(otherNode, queue.In), "*", "b", "forged"},
		{"XREADGROUP", "GROUP", group, consumer, "STREAMS", stream(otherNode, queue.In), ">"}, {"XDEL", stream(otherNode, queue.Out), "0-1"},
		{"XACK", stream(otherNode, queue.In), group, "0-1"}, {"XGROUP", "CREATE", stream(otherNode, queue.In), "spy", "0"},
		{"XRANGE", stream(otherNode, queue.Out), "-", "+"}, {"XLEN", stream(otherNode, queue.Out)},
		// The same from a script: as a declared key, as a hidden one, and in a script that only names its own key.
		lua(theirJob, `"HGET", KEYS[1], "msg"`), lua(key(testNode, "x"), `"HGET", "`+theirJob+`", "msg"`),
		lua(key(testNode, "x"), `"XADD", "`+stream(otherNode, queue.Out)+`", "*", "b", "forged"`), lua(key(testNode, "x"), `"PUBLISH", "asynq:cancel", "job"`),
		lua(key(testNode, "x"), `"FLUSHALL"`), lua(key(testNode, "x"), `"KEYS", "*"`), lua("writ:generation", `"GET", KEYS[1]`),
		// Its own streams in the wrong direction.
		{"XADD", stream(testNode, queue.In), "*", "b", "x"}, {"XREADGROUP", "GROUP", group, consumer, "STREAMS", stream(testNode, queue.Out), ">"},
		{"XGROUP", "DESTROY", stream(testNode, queue.In), group}, {"XGROUP", "SETID", stream(testNode, queue.In), group, "0"}, {"XTRIM", stream(testNode, queue.Out), "MAXLEN", 0},
		// Shared keys.
		{"GET", generationKey}, {"SET", generationKey, "2"}, {"DEL", generationKey}, {"SMEMBERS", "asynq:queues"}, {"DEL", "asynq:queues"},
		{"ZRANGE", "asynq:servers", 0, -1}, {"ZADD", "asynq:workers", 1, "x"}, {"HSET", "asynq:workers:{x}", "a", "b"}, {"SET", "x", "y"}, {"GET", "x"},
		{"PUBLISH", "asynq:cancel", "job"}, {"SPUBLISH", "asynq:cancel", "job"}, {"SUBSCRIBE", "other"}, {"PSUBSCRIBE", "*"}, {"SSUBSCRIBE", "asynq:cancel"},
		{"PUBSUB", "CHANNELS"},
		// Inspection.
		{"KEYS", "*"}, {"SCAN", 0}, {"RANDOMKEY"}, {"DBSIZE"}, {"INFO"}, {"MONITOR"}, {"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "PAUSE", 1},
		{"SLOWLOG", "GET"}, {"OBJECT", "ENCODING", key(testNode, "x")}, {"MEMORY", "USAGE", theirJob}, {"COMMAND", "COUNT"}, {"SELECT", 1}, {"DUMP", theirJob},
		{"COPY", theirJob, key(testNode, "x")}, {"RENAME", theirJob, key(testNode, "x")}, {"SORT", key(testNode, "pending"), "BY", "x*", "GET", theirJob},
		{"SUNIONSTORE", key(testNode, "x"), "asynq:queues"}, {"BITOP", "NOT", key(testNode, "x"), theirJob},
		// Administration.
		{"FLUSHALL"}, {"FLUSHDB"}, {"SWAPDB", 0, 1}, {"CONFIG", "GET", "*"}, {"CONFIG", "SET", "dir", "/"}, {"DEBUG", "SLEEP", 0}, {"SHUTDOWN", "NOSAVE"}, {"SAVE"}, {"BGSAVE"},
		{"BGREWRITEAOF"}, {"REPLICAOF", "127.0.0.1", 1}, {"MODULE", "LIST"}, {"MIGRATE", "127.0.0.1", 1, "x", 0, 1}, {"RESTORE", key(testNode, "x"), 0, "x"},
		{"EVAL", "return 1", 0}, {"EVAL_RO", "return 1", 0}, {"FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('x', function() end)"}, {"FCALL_RO", "x", 0},
		{"ACL", "LIST"}, {"ACL", "WHOAMI"}, {"ACL", "SETUSER", "default", "on"}, {"SCRIPT", "FLUSH"}, {"SCRIPT", "LOAD", "return 1"}, {"SCRIPT", "KILL"},
		{"FUNCTION", "LIST"}, {"FUNCTION", "FLUSH"}, {"FCALL", "x", 0}, {"FAILOVER"}, {"CLUSTER", "INFO"}, {"LATENCY", "RESET"}, {"WAIT", 0, 1}, {"MULTI"}, {"WATCH", "x"},
	} {
		err := node.Do(t.Context(), command...).Err()
		if err == nil || !slices.ContainsFunc(refused, func(text string) bool { return strings.Contains(err.Error(), text) }) {
			t.Errorf("%v = %v, want it refused", command, err)
		}
	}
	if after := keysOf(t, admin); after != before {
		t.Errorf("keys are\n%s\nwere\n%s", after, before)
	}
}

func keysOf(t *testing.T, admin *redis.Client) string {
	t.Helper()
	keys, err := admin.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, k := range slices.Sorted(slices.Values(keys)) {
		dump, err := admin.Dump(t.Context(), k).Result()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k+" "+writ.DigestOf([]byte(dump)).String())
	}
	return strings.Join(all, "\n")
}

func TestApplyMakesExactlyTheAccounts(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	accounts := supervisor.Accounts(testDatacenter)
	apply := func(passwords map[writ.NodeID]string) {
		t.Helper()
		if err := accounts.Apply(t.Context(), passwords); err != nil {
			t.Fatal(err)
		}
	}
	works := func(node writ.NodeID, password string) bool {
		t.Helper()
		return works(t, as(server.URL, accounts.User(node), password), node)
	}
	if err := admin.ACLSetUser(t.Context(), "people", "on", ">x").Err(); err != nil {
		t.Fatal(err)
	}
	elsewhere := supervisor.Accounts(otherDatacenter)
	if err := elsewhere.Apply(t.Context(), map[writ.NodeID]string{otherNode: "c"}); err != nil {
		t.Fatal(err)
	}

	apply(map[writ.NodeID]string{testNode: "a", otherNode: "b"})
	if !works(testNode, "a") || !works(otherNode, "b") || works(testNode, "b") {
		t.Error("the accounts do not work with their passwords")
	}

	// A correct account is unchanged. A missing, disabled or changed account, or one of another version of this program,
	// is repaired.
	for name, harm := range map[string][]any{
		"gone": {"ACL", "DELUSER", accounts.User(testNode)}, "off": {"ACL", "SETUSER", accounts.User(testNode), "off"},
		"changed": {"ACL", "SETUSER", accounts.User(testNode), "resetpass", ">z"},
	} {
		if err := admin.Do(t.Context(), harm...).Err(); err != nil {
			t.Fatal(err)
		}
		if works(testNode, "a") {
			t.Fatalf("%s: it still works", name)
		}
		apply(map[writ.NodeID]string{testNode: "a", otherNode: "b"})
		if !works(testNode, "a") {
			t.Errorf("%s: it does not work again", name)
		}
	}
	older := slices.Clone(allowances)
	older[0].commands = older[0].commands[1:]
	if err := admin.ACLSetUser(t.Context(), accounts.User(testNode), rules(testNode, hashOf("a"), 0, older)...).Err(); err != nil {
		t.Fatal(err)
	}
	apply(map[writ.NodeID]string{testNode: "a", otherNode: "b"})
	conn := client(t, as(server.URL, accounts.User(testNode), "a")).Conn()
	defer conn.Close()
	if err := conn.Exists(t.Context(), key(testNode, "x")).Err(); err != nil {
		t.Errorf("the account of an older version: %v", err)
	}
	before := admin.Info(t.Context(), "commandstats").Val()
	apply(map[writ.NodeID]string{testNode: "a", otherNode: "b"})
	if n, m := statOf(before, "acl|setuser"), statOf(admin.Info(t.Context(), "commandstats").Val(), "acl|setuser"); n != m {
		t.Errorf("accounts that are right were made again: %s, then %s", n, m)
	}

	// A removed account can execute no commands, even over an existing connection.
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	apply(map[writ.NodeID]string{otherNode: "b"})
	if err := conn.Get(t.Context(), key(testNode, "x")).Err(); err == nil || strings.Contains(err.Error(), "redis: nil") || strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("over the old connection: %v, want it cut", err)
	}
	if works(testNode, "a") {
		t.Error("a removed account works")
	}
	users := strings.Join(admin.ACLUsers(t.Context()).Val(), " ")
	if !strings.Contains(users, "people") || !strings.Contains(users, elsewhere.User(otherNode)) {
		t.Errorf("users = %s, users of others were removed", users)
	}
	if err := accounts.Apply(t.Context(), map[writ.NodeID]string{"*": "x"}); err == nil {
		t.Error("an id that is a pattern is taken")
	}
}

const otherDatacenter = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000000a")

// works reports whether a login reaches the queue of a node.
func works(t *testing.T, redisURL string, node writ.NodeID) bool {
	t.Helper()
	q, err := Open(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	return q.Send(t.Context(), queue.Stream{Node: node, Direction: queue.Out}, []byte("x")) == nil
}

func statOf(info, command string) string {
	for line := range strings.Lines(info) {
		if calls, ok := strings.CutPrefix(line, "cmdstat_"+command+":"); ok {
			calls, _, _ = strings.Cut(calls, ",")
			return calls
		}
	}
	return ""
}

func TestRedisWithoutAccountsSaysSo(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	if err := client(t, server.URL).ACLSetUser(t.Context(), "super", "on", ">x", "~*", "&*", "+@all", "-acl").Err(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, url, want string }{
		{"embedded", startEmbedded(t), "does not have users"},
		{"not permitted", as(server.URL, "super", "x"), "+acl|setuser"},
	} {
		err := open(t, tt.url).Accounts(testDatacenter).Apply(t.Context(), map[writ.NodeID]string{testNode: "a"})
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want it unsupported: %q", tt.name, err, tt.want)
		}
	}
	server.Kill()
	err := open(t, server.URL).Accounts(testDatacenter).Apply(t.Context(), nil)
	if writ.CodeOf(err) != writ.CodeQueueUnavailable || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without Redis: %v", err)
	}
}

// After Redis has rejected a password, Login is called again.
func TestLoginIsAskedForAgainWhenItIsRefused(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin := client(t, server.URL)
	if err := admin.ConfigSet(t.Context(), "requirepass", "nobody knows").Err(); err != nil {
		t.Fatal(err)
	}
	admin = client(t, as(server.URL, "", "nobody knows"))
	name := (&Accounts{prefix: "test:"}).User(testNode)
	set := func(password string) {
		t.Helper()
		if err := admin.ACLSetUser(t.Context(), name, rules(testNode, hashOf(password), 0, allowances)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("first")
	q := open(t, server.URL)
	var asked []bool
	password := "first"
	q.Login = func(_ context.Context, refused bool) (string, string, error) {
		asked = append(asked, refused)
		if len(asked) == 1 {
			return "", "", writ.Errorf(writ.CodeUnreachable, "the supervisor is away")
		}
		return name, password, nil
	}
	out := queue.Stream{Node: testNode, Direction: queue.Out}
	send := func() error { return q.Send(t.Context(), out, []byte("x")) }
	if err := send(); writ.CodeOf(err) != writ.CodeQueueUnavailable || !strings.Contains(err.Error(), "supervisor is away") {
		t.Errorf("without a login: %v", err)
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if err := admin.ACLDelUser(t.Context(), name).Err(); err != nil { // closes the connection as well
		t.Fatal(err)
	}
	set("second")
	for send() == nil { // the dead connection may only be detected now
		_ = sleep.For(t.Context(), time.Millisecond)
	}
	password = "second"
	if err := send(); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	if last := asked[len(asked)-1]; !last {
		t.Errorf("requests %v: the last one does not report the refused password", asked)
	}
}

// An owner of Redis widens the account of a node. The next check of the accounts makes it again.
//
// Promise: Nodes and Redis: A node's account at Redis with added rights is replaced within seconds.
// How: The supervisor compares keys, channels, commands and passwords, and deletes an account with other ones.
func TestWidenedAccountIsReplaced(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, accounts := client(t, server.URL), open(t, server.URL).Accounts(testDatacenter)
	passwords := map[writ.NodeID]string{testNode: "mine", otherNode: "theirs"}
	name := accounts.User(testNode)
	lines := func() []string {
		t.Helper()
		if err := accounts.Apply(t.Context(), passwords); err != nil {
			t.Fatal(err)
		}
		list, err := admin.ACLList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := lines()
	swapped := slices.Clone(allowances)
	swapped[1].keys, swapped[2].keys = swapped[2].keys, swapped[1].keys
	for change, rule := range map[string][]string{
		"all keys": {"~*"}, "readable keys": {"%R~writ:*"}, "channels": {"&*"}, "command": {"+get"}, "category": {"+@read"},
		"selector": {"(~writ:generation +get)"}, "password": {">another"}, "no password": {"nopass"},
		"keys of another node":   {"(~asynq:{" + string(otherNode) + "}:* +hget)"},
		"rights of another node": rules(otherNode, hashOf("mine"), 0, allowances),
		"swapped streams":        rules(testNode, hashOf("mine"), 0, swapped),
	} {
		t.Run(change, func(t *testing.T) {
			if err := admin.ACLSetUser(t.Context(), name, rule...).Err(); err != nil {
				t.Fatal(err)
			}
			if list, err := admin.ACLList(t.Context()).Result(); err != nil || slices.Equal(list, want) {
				t.Fatalf("the account is as before: %v", err)
			}
			if list := lines(); !slices.Equal(list, want) {
				t.Errorf("the accounts are\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
