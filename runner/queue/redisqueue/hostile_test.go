package redisqueue

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// two is a datacenter with a compromised node and an honest one. Each only has its own account.
type two struct {
	t               *testing.T
	admin           *redis.Client
	supervisor      *Queue
	accounts        *Accounts
	hostile, honest *redis.Client
	bad, good       queue.Stream
	passwords       map[writ.NodeID]string
	goodIn, badIn   queue.Stream
	sent            int
}

func newTwo(t *testing.T) *two {
	t.Helper()
	server := testenv.Redis(t)
	d := &two{
		t: t, admin: client(t, server.URL), supervisor: open(t, server.URL),
		bad: queue.Stream{Node: testNode, Direction: queue.Out}, good: queue.Stream{Node: otherNode, Direction: queue.Out},
		badIn: queue.Stream{Node: testNode, Direction: queue.In}, goodIn: queue.Stream{Node: otherNode, Direction: queue.In},
		passwords: map[writ.NodeID]string{testNode: "mine", otherNode: "theirs"},
	}
	d.accounts = applyAccounts(t, d.supervisor, d.passwords)
	d.hostile = client(t, as(server.URL, d.accounts.User(testNode), "mine"))
	d.honest = client(t, as(server.URL, d.accounts.User(otherNode), "theirs"))
	if got, err := d.supervisor.Receive(t.Context(), time.Millisecond, d.bad, d.good); err != nil || len(got) > 0 {
		t.Fatalf("Receive = %v, %v", got, err)
	}
	return d
}

// honestWord sends a message from the honest node and fails the test unless it is received. It returns the other
// messages received meanwhile.
func (d *two) honestWord() (others []queue.Message) {
	d.t.Helper()
	d.sent++
	word := fmt.Sprint("word ", d.sent)
	if err := d.honest.XAdd(d.t.Context(), &redis.XAddArgs{Stream: streamKey(d.good), Values: []any{field, word}}).Err(); err != nil {
		d.t.Fatal(err)
	}
	for deadline := time.Now().Add(guard); ; {
		got, err := d.supervisor.Receive(d.t.Context(), 100*time.Millisecond, d.bad, d.good)
		if err != nil {
			d.t.Fatalf("Receive = %v: one node keeps the supervisor from hearing another", err)
		}
		if err := d.supervisor.Acknowledge(d.t.Context(), got...); err != nil {
			d.t.Fatal(err)
		}
		for _, m := range got {
			if m.Stream == d.good && string(m.Body) == word {
				return others
			}
			others = append(others, m)
		}
		if time.Now().After(deadline) {
			d.t.Fatal("the honest node is not heard")
		}
	}
}

// findings returns the findings of a survey.
func (d *two) findings() map[queue.Offence]queue.Finding {
	d.t.Helper()
	all := map[queue.Offence]queue.Finding{}
	if s := &d.accounts.sweep; s.complete() { // as if the pause after it were over
		s.ended = s.ended.Add(-sweepRest)
	}
	found, err := d.accounts.Survey(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range found {
		if f.Node != testNode {
			d.t.Errorf("found of an honest node: %+v", f)
		}
		all[f.Offence] = f
	}
	return all
}

// Promise: Nodes and Redis: 50 messages of 16 MiB from one node use less than 128 MiB of the supervisor's heap, while
// other nodes are served.
// How: The supervisor limits replies while it reads them and removes oversized messages.
// Also: TestAMessageOfManyFieldsIsDropped, TestLargeMessagesDelayNoOthers, TestAnOversizedReplyIsReplacedByAMark.
func TestOversizeMessagesNeverReachMemory(t *testing.T) {
	d := newTwo(t) // not parallel, because it measures the heap
	const n, size = 50, 16 << 20
	func() {
		body := strings.Repeat("x", size)
		for range n {
			if err := d.hostile.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey(d.bad), Values: []any{field, body}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if others := d.honestWord(); len(others) > 0 {
		t.Errorf("%d messages of the other node were taken", len(others))
	}
	for left := int64(1); left > 0; left = d.admin.XLen(t.Context(), streamKey(d.bad)).Val() {
		d.honestWord()
	}
	runtime.ReadMemStats(&after)
	// All allocations, not only live ones.
	if grown := int64(after.TotalAlloc) - int64(before.TotalAlloc); grown > 128<<20 {
		t.Errorf("%d MiB were taken from the heap to throw %d MiB away", grown>>20, n*size>>20)
	}
	if got := d.findings()[queue.Oversize]; got.Count != n || got.Bytes != n*size {
		t.Errorf("found %+v, want %d messages of %d bytes", got, n, n*size)
	}
	if pending := d.admin.XPending(t.Context(), streamKey(d.bad), group).Val(); pending.Count != 0 {
		t.Errorf("%d dropped messages would come again", pending.Count)
	}
}

func TestAMessageOfManyFieldsIsDropped(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	values := []any{field, "x"}
	for i := range 50_000 {
		values = append(values, fmt.Sprint(i), "x")
	}
	if err := d.hostile.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey(d.bad), Values: values}).Err(); err != nil {
		t.Fatal(err)
	}
	d.honestWord()
	if got := d.findings()[queue.Oversize]; got.Count != 1 {
		t.Errorf("found %+v", got)
	}
}

func TestLargeMessagesDelayNoOthers(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	const n = 8
	for i := range n {
		body := fmt.Sprint(i) + strings.Repeat("x", 4<<20)
		if err := d.hostile.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey(d.bad), Values: []any{field, body}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for len(got) < n {
		for _, m := range d.honestWord() {
			got = append(got, string(m.Body[:1]))
		}
	}
	if !slices.IsSorted(got) || len(got) != n {
		t.Errorf("messages arrived as %q", got)
	}
}

func TestFloodingNodeDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	// Its share is used up by the first read.
	d.supervisor.meters[d.bad] = &meter{perSecond: 0.001, messages: 1, bytes: readBytes}
	for range 20 {
		_, err := d.hostile.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range 100 {
				p.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey(d.bad), Values: []any{field, "x"}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	taken := 0
	for range 20 {
		taken += len(d.honestWord())
	}
	if taken > maxReceived {
		t.Errorf("%d messages were taken at once", taken)
	}
	if _, ok := d.findings()[queue.TooFast]; !ok {
		t.Error("nobody is told")
	}
}

// Every key that a node may write, with every type that its account permits; other types are set by an administrator.
//
// Promise: Nodes and Redis: A broken Redis key or stream affects only the node that owns the key.
// How: The supervisor repairs each stream separately; it removes a key of the wrong type and reports it once.
// Also: TestARepeatedlyCorruptedStreamDelaysNoOther, TestStreamWithoutGroupAffectsOneNode.
func TestKeyOfWrongTypeAffectsOneNode(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	kinds := map[string]func(c *redis.Client, key string) error{
		"hash":   func(c *redis.Client, key string) error { return c.HSet(t.Context(), key, "x", "y").Err() },
		"zset":   func(c *redis.Client, key string) error { return c.ZAdd(t.Context(), key, redis.Z{Member: "x"}).Err() },
		"list":   func(c *redis.Client, key string) error { return c.RPush(t.Context(), key, "x").Err() },
		"string": func(c *redis.Client, key string) error { return c.Set(t.Context(), key, "x", 0).Err() },
		"stream": func(c *redis.Client, key string) error {
			return c.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []any{"x", "y"}}).Err()
		},
	}
	names := belongs(testNode)
	names[key(testNode, "paused")] = "string"
	names[key(testNode, taskKey+"next")] = "hash"
	n := 0
	for name, belongs := range names {
		for kind, put := range kinds {
			if kind == belongs {
				continue
			}
			by := d.hostile
			if kind == "string" || kind == "stream" || belongs == "stream" { // its account does not permit this
				by = d.admin
			}
			if err := d.admin.Del(t.Context(), name).Err(); err != nil {
				t.Fatal(err)
			}
			if err := put(by, name); err != nil {
				t.Fatalf("%s as %s: %v", name, kind, err)
			}
			d.honestWord()
			n++
			for _, node := range []writ.NodeID{testNode, otherNode} {
				id := fmt.Sprint("job-", n)
				if strings.HasSuffix(name, "next") && node == testNode {
					id = "next"
				}
				tasks := []queue.Task{{ID: id, EndBy: time.Now().Add(time.Minute)}, {ID: id + "b", EndBy: time.Now().Add(time.Minute)}}
				if err := d.supervisor.Push(t.Context(), node, tasks...); err != nil {
					t.Errorf("%s as %s: Push to %s = %v", name, kind, node, err)
				}
				if missing, err := d.supervisor.Missing(t.Context(), node, id, id+"b"); err != nil || len(missing) > 0 && id != "next" {
					t.Errorf("%s as %s: Missing of %s = %v, %v", name, kind, node, missing, err)
				}
				if _, err := d.supervisor.Withdraw(t.Context(), node, id, id+"b"); err != nil {
					t.Errorf("%s as %s: Withdraw of %s = %v", name, kind, node, err)
				}
				if err := d.supervisor.Send(t.Context(), queue.Stream{Node: node, Direction: queue.In}, []byte("x")); err != nil {
					t.Errorf("%s as %s: Send to %s = %v", name, kind, node, err)
				}
			}
		}
	}
	if got := d.findings()[queue.WrongType]; got.Count == 0 {
		t.Error("nobody is told")
	}
	if err := d.honest.Ping(t.Context()).Err(); err != nil && !strings.Contains(err.Error(), "NOPERM") {
		t.Error(err)
	}
}

func TestARepeatedlyCorruptedStreamDelaysNoOther(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	for range 20 {
		if err := d.admin.Set(t.Context(), streamKey(d.bad), "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		d.honestWord()
	}
}

func TestStreamWithoutGroupAffectsOneNode(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	for _, spoil := range []func() error{
		func() error { return d.admin.XGroupDestroy(t.Context(), streamKey(d.bad), group).Err() },
		func() error { return d.admin.Del(t.Context(), streamKey(d.bad)).Err() },
	} {
		received := make(chan error, 1)
		go func() { // Receive is waiting when that happens
			_, err := d.supervisor.Receive(t.Context(), 50*time.Millisecond, d.bad, d.good)
			received <- err
		}()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := <-received; err != nil {
			t.Errorf("Receive = %v", err)
		}
		d.honestWord()
	}
}

// Promise: Nodes and Redis: A node that fills Redis loses its own data and temporarily its account; other nodes are
// unaffected.
// How: An incremental scan of all keys has a budget per node; the node shows `QUEUE_BUDGET`.
// Also: TestALargeKeyIsFoundAmongVeryMany, TestANodeHasItsShareOfKeys, TestFloodingNodeDelaysOnlyItself,
// TestQueueFillingSuspendsNode, TestBacklogAfterOutageBlocksNoNode.
func TestNodeFillingRedisIsFoundAndCleared(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(d *two) error{
		"its stream": func(d *two) error {
			body := strings.Repeat("x", 4<<20)
			for range queue.BudgetBytes/len(body) + 1 {
				if err := d.hostile.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey(d.bad), Values: []any{field, body}}).Err(); err != nil {
					return err
				}
			}
			return nil
		},
		"unknown keys": func(d *two) error {
			_, err := d.hostile.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				body := strings.Repeat("x", 1<<20)
				for i := range queue.BudgetBytes/len(body) + 1 {
					p.HSet(t.Context(), key(testNode, fmt.Sprint("mine:", i)), "small", "x", "large", body)
				}
				return nil
			})
			return err
		},
		"a long list": func(d *two) error {
			values := make([]any, 10_000)
			for i := range values {
				values[i] = "x"
			}
			for range queue.BudgetEntries/len(values) + 1 {
				if err := d.hostile.RPush(t.Context(), key(testNode, "pending"), values...).Err(); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTwo(t)
			if err := d.supervisor.Push(t.Context(), otherNode, queue.Task{ID: "job", EndBy: time.Now().Add(time.Minute)}); err != nil {
				t.Fatal(err)
			}
			if got := d.findings(); len(got) > 0 {
				t.Errorf("found before: %+v", got)
			}
			if err := fill(d); err != nil {
				t.Fatal(err)
			}
			if got := d.findings()[queue.OverBudget]; got.Bytes <= queue.BudgetBytes && got.Count <= queue.BudgetEntries {
				t.Errorf("found %+v", got)
			}
			off := map[writ.NodeID]string{otherNode: d.passwords[otherNode]}
			if err := d.accounts.Apply(t.Context(), off); err != nil {
				t.Fatal(err)
			}
			if err := d.accounts.Clear(t.Context(), testNode); err != nil {
				t.Fatal(err)
			}
			if keys := d.admin.Keys(t.Context(), "*{"+string(testNode)+"}*").Val(); len(keys) > 0 {
				t.Errorf("it still has %q", keys)
			}
			if missing, err := d.supervisor.Missing(t.Context(), otherNode, "job"); err != nil || len(missing) > 0 {
				t.Errorf("the job of the other node: missing %q, %v", missing, err)
			}
			if err := d.hostile.Exists(t.Context(), key(testNode, "pending")).Err(); err == nil {
				t.Error("it goes on")
			}
			d.honestWord()
			if got := d.findings(); len(got) > 0 {
				t.Errorf("found after: %+v", got)
			}
		})
	}
}

// tinyKeys makes keys of a node.
func (d *two) tinyKeys(node writ.NodeID, n int) {
	d.t.Helper()
	const script = `for i = 1, tonumber(ARGV[2]) do redis.call("SET", ARGV[1] .. i, "") end`
	if err := d.admin.Eval(d.t.Context(), script, nil, key(node, "tiny:"), n).Err(); err != nil && !errors.Is(err, redis.Nil) {
		d.t.Fatal(err)
	}
}

func TestALargeKeyIsFoundAmongVeryMany(t *testing.T) {
	t.Parallel()
	const nodes, keys, looks = 9, 10_000, 3
	d := newTwo(t)
	for i := range nodes {
		d.tinyKeys(writ.NodeID(fmt.Sprintf("01920000-0000-7000-8000-0000000001%02d", i)), keys)
	}
	d.tinyKeys(testNode, keys)
	for range 2 { // also after it was found and removed
		if err := d.admin.SetRange(t.Context(), key(testNode, "large"), queue.BudgetBytes+1<<20, "x").Err(); err != nil {
			t.Fatal(err)
		}
		found := false
		for range looks {
			found = found || d.findings()[queue.OverBudget].Bytes > queue.BudgetBytes
		}
		if !found {
			t.Fatalf("not found within %d scans of %d keys", looks, nodes*keys)
		}
		if err := d.admin.Del(t.Context(), key(testNode, "large")).Err(); err != nil {
			t.Fatal(err)
		}
		d.findings()
	}
}

func TestANodeHasItsShareOfKeys(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	d.tinyKeys(testNode, queue.BudgetKeys-10)
	for range 3 { // at least one complete pass
		if got := d.findings(); len(got) > 0 {
			t.Errorf("found %+v", got)
		}
	}
	d.tinyKeys(testNode, queue.BudgetKeys+2)
	var found string
	for range 6 {
		found += d.findings()[queue.OverBudget].What
	}
	if !testenv.Mentions(found, fmt.Sprint(queue.BudgetKeys)) {
		t.Errorf("found %q", found)
	}
}

// A look at all keys takes time of Redis, the more the more nodes there are.
func TestSurveysOfAnUnchangedRedisAreCheap(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	d.tinyKeys(testNode, 1000)
	for !d.accounts.sweep.complete() {
		d.findings()
	}
	measured := func() string { return statOf(d.admin.Info(t.Context(), "commandstats").Val(), "memory|usage") }
	before := measured()
	for range 10 {
		if found, err := d.accounts.Survey(t.Context()); err != nil || len(found) > 0 {
			t.Fatalf("found %+v, %v", found, err)
		}
	}
	if after := measured(); after != before {
		t.Errorf("keys were measured during the pause: %s, then %s", before, after)
	}
	if err := d.admin.SetRange(t.Context(), key(testNode, "large"), queue.BudgetBytes+1<<20, "x").Err(); err != nil {
		t.Fatal(err)
	}
	if found, err := d.accounts.Survey(t.Context()); err != nil || len(found) != 1 {
		t.Errorf("found %+v, %v of a node that exceeds its budget during the pause", found, err)
	}
}

// used returns the memory of Redis in MiB.
func (d *two) used() int64 {
	d.t.Helper()
	return number(infoOf(d.admin.Info(d.t.Context(), "memory").Val())["used_memory"]) >> 20
}

// Names of groups and of forbidden keys use memory outside of keys.
//
// Promise: Nodes and Redis: The data that Redis keeps about a node in addition to keys is bounded: group names,
// refused names, connection names and script copies.
// How: Nodes cannot create groups; the supervisor clears the log of refusals, measures connection names and suspends
// the node.
// Also: TestLongNamesOfConnectionsAreFound, TestScriptsCopyABoundedNumberOfTimes.
func TestMemoryOutsideKeysIsFreed(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	const n, size = 40, 1 << 20
	before := d.used()
	for i := range n {
		name := fmt.Sprint(i) + strings.Repeat("x", size)
		if err := d.hostile.XGroupCreate(t.Context(), streamKey(d.badIn), name, "$").Err(); err == nil {
			t.Fatal("a node created groups, whose names are not counted")
		}
		if err := d.hostile.HGet(t.Context(), name, "x").Err(); err == nil {
			t.Fatal("a node read a foreign key")
		}
	}
	if kept := d.used() - before; kept < n/2 {
		t.Errorf("Redis keeps only %d MiB of refused commands: the test proves too little", kept)
	}
	if got := d.findings()[queue.OverBudget]; got.Bytes < n*size || got.What == "" {
		t.Errorf("found %+v", got)
	}
	if left := len(d.admin.ACLLog(t.Context(), 1000).Val()); left > 1 {
		t.Errorf("Redis still keeps %d entries", left)
	}
	if _, err := d.honest.HGet(t.Context(), "small", "x").Result(); err == nil {
		t.Fatal("a node read a foreign key")
	}
	if got := d.findings(); len(got) > 0 || len(d.admin.ACLLog(t.Context(), 10).Val()) == 0 {
		t.Errorf("findings = %+v, or the log for operators is empty", got)
	}
}

// A script of asynq that writ does not use copies the entries of sets, as often as a node likes.
func TestScriptsCopyABoundedNumberOfTimes(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	const entries, chain = 1000, 30
	name := key(testNode, "g") + strings.Repeat(":1", chain)
	members, stale := make([]redis.Z, entries), make([]redis.Z, chain)
	for i := range members {
		members[i].Member = fmt.Sprint(i)
	}
	for i := range stale {
		stale[i] = redis.Z{Member: strings.TrimSuffix(name, strings.Repeat(":1", i)), Score: float64(i)}
	}
	for _, s := range nodeScripts() {
		for at, z := range map[string][]redis.Z{name: members, key(testNode, "stale"): stale} {
			if err := d.hostile.ZAdd(t.Context(), at, z...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		_ = d.hostile.EvalSha(t.Context(), s.Hash(), []string{key(testNode, "stale")}, "1000000", key(testNode, "g"), "1000000").Err()
		if n := d.admin.ZCard(t.Context(), key(testNode, "g")).Val(); n > 0 {
			t.Errorf("%d entries written by a chain of %d: %s", n, chain, s.text)
		}
	}
}

// A client that fails to log in chose its name itself, which proves no action of the node with that name.
//
// Promise: Nodes and Redis: A node cannot cause the suspension of another node by failed logins under its name.
// How: The supervisor uses the user of the connection instead of the claimed name.
func TestLoginAsOtherNodeIsDetected(t *testing.T) {
	t.Parallel()
	for what, name := range map[string]string{"": strings.Repeat("x", 2<<20), "under a name that is not read": strings.Repeat("x", maxString+1)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newTwo(t)
			c := connectAs(t, "redis://"+d.admin.Options().Addr, d.accounts.User(testNode), d.passwords[testNode], name)
			c.fails("AUTH", d.accounts.User(otherNode), "guess")
			// findings also fails for a finding about another node.
			if got := d.findings()[queue.OverBudget]; got.Bytes < int64(len(name)) || got.What == "" {
				t.Errorf("found %+v", got)
			}
		})
	}
}

// The name of a connection uses memory outside of keys, and Redis rejects the writes of all other clients because of
// it.
func TestLongNamesOfConnectionsAreFound(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	if err := d.admin.ConfigSet(t.Context(), "maxmemory", "128mb").Err(); err != nil {
		t.Fatal(err)
	}
	const n, size = 9, 16 << 20
	if err := d.admin.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for range n {
		connectAs(t, "redis://"+d.admin.Options().Addr, d.accounts.User(testNode), d.passwords[testNode], strings.Repeat("x", size))
	}
	if err := d.honest.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey(d.good), Values: []any{field, "x"}}).Err(); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Fatalf("write of an honest node: %v; the test needs OOM", err)
	}
	if got := d.findings()[queue.OverBudget]; got.Count != n || got.Bytes < n*size || got.What == "" {
		t.Errorf("found %+v", got)
	}
	if left := d.used(); left > 64 {
		t.Errorf("Redis still keeps %d MiB", left)
	}
	if got := d.findings(); len(got) > 0 {
		t.Errorf("findings within the limits: %+v", got)
	}
}

// A node chooses the names of its keys as well. Several long ones at once block a script of Redis for too long, and
// must not reach this process.
//
// Promise: Nodes and Redis: Long key names neither stop the Redis survey nor enter the memory of the supervisor.
// How: Scripts in Redis measure and remove keys, one long name at a time; a partial survey counts.
// Also: TestUnfinishedScanKeepsItsFindings.
func TestLongNamesOfKeysAreRemovedUnread(t *testing.T) {
	d := newTwo(t) // not parallel, because it measures the heap
	const n, size = 10, 8 << 20
	for i := range n {
		if err := d.hostile.HSet(t.Context(), key(testNode, fmt.Sprint(i)+strings.Repeat("x", size)), "a", "b").Err(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := d.findings()[queue.OverBudget]; got.Bytes <= queue.BudgetBytes {
		t.Errorf("found %+v", got)
	}
	if err := d.accounts.Clear(t.Context(), testNode); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc) - int64(before.TotalAlloc); grown > 32<<20 {
		t.Errorf("%d MiB were taken from the heap to remove keys with names of %d MiB", grown>>20, n*size>>20)
	}
	if left := len(d.admin.Keys(t.Context(), key(testNode, "*")).Val()); left > 0 {
		t.Errorf("%d keys are left", left)
	}
}

// Promise: Nodes and Redis: A node with oversized entries in its task lists is denied access to Redis.
// How: The survey compares the bytes of each list with its length.
func TestLongEntriesOfListsAreFound(t *testing.T) {
	t.Parallel()
	d := newTwo(t)
	ids := make([]any, 5000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%080d", i)
	}
	if err := d.honest.RPush(t.Context(), key(otherNode, "pending"), ids...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := d.hostile.ZAdd(t.Context(), key(testNode, "lease"), redis.Z{Member: strings.Repeat("x", 1000)}).Err(); err != nil {
		t.Fatal(err)
	}
	if got := d.findings(); len(got) > 0 {
		t.Errorf("findings within the limits: %+v", got)
	}
	for what, add := range map[string]func(entry string) error{
		"a list": func(e string) error { return d.hostile.RPush(t.Context(), key(testNode, "any"), e).Err() },
		"a sorted set": func(e string) error {
			return d.hostile.ZAdd(t.Context(), key(testNode, "lease"), redis.Z{Member: e}).Err()
		},
	} {
		for i := range 4 {
			if err := add(fmt.Sprint(i) + strings.Repeat("x", 100<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.findings()[queue.OverBudget]; got.What == "" {
			t.Errorf("%s: found %+v", what, got)
		}
		if err := d.accounts.Clear(t.Context(), testNode); err != nil {
			t.Fatal(err)
		}
	}
}
