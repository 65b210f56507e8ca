package redisqueue

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
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

// impostor is a server that greets like Redis and answers everything else with the same bytes. It returns its URL.
func impostor(t *testing.T, reply string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					switch word := strings.ToLower(lines.Text()); word {
					case "hello":
						_, err = conn.Write([]byte("%1\r\n+server\r\n+redis\r\n"))
					case "get", "getrange", "evalsha", "xreadgroup", "lrange", "info":
						_, err = conn.Write([]byte(reply))
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return "redis://" + listener.Addr().String() + "/0"
}

// A client that trusts the announced length of a list or text reserves that much memory at once, and its process ends.
//
// Promise: Nodes and Redis: A server that pretends to be Redis cannot make a supervisor or node reserve memory or end.
// How: A filter on each connection limits the lengths, the depth and the size of replies before go-redis sees them.
func TestImpostorOfRedisEndsNoProcess(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"list":          "*999999999999\r\n",
		"map":           "%499999999999\r\n",
		"set":           "~999999999999\r\n",
		"push":          ">999999999999\r\n",
		"text":          "$999999999999\r\n",
		"attribute":     "|999999999999\r\n",
		"nested lists":  strings.Repeat("*1\r\n", 5_000_000),
		"lists of list": strings.Repeat("*200000\r\n", 20),
	} {
		t.Run(name, func(t *testing.T) {
			q := open(t, impostor(t, reply))
			stream := queue.Stream{Node: testNode, Direction: queue.Out}
			for what, call := range map[string]func() error{
				"Generation": func() error { _, err := q.Generation(t.Context()); return err },
				"Missing":    func() error { _, err := q.Missing(t.Context(), testNode, "a"); return err },
				"Receive":    func() error { _, err := q.Receive(t.Context(), time.Millisecond, stream); return err },
			} {
				if err := call(); writ.CodeOf(err) != writ.CodeQueueUnavailable {
					t.Errorf("%s = %v", what, err)
				}
			}
		})
	}
}

// streamed is a connection that reads from a reader.
type streamed struct {
	net.Conn
	io.Reader
}

func (s streamed) Read(b []byte) (int, error) { return s.Reader.Read(b) }

func TestLongReplyEndsItsConnection(t *testing.T) {
	t.Parallel()
	text := "*70000\r\n" + strings.Repeat(bulk(strings.Repeat("x", 1000)), 70_000)
	c := &boundedConn{Conn: streamed{Reader: strings.NewReader(text)}}
	if n, err := io.Copy(io.Discard, c); !errors.Is(err, errLargeReply) || n > maxTotal+maxString {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errLargeReply) {
		t.Errorf("the next Read = %v", err)
	}
}

// Promise: Nodes and Redis: Values of any size and type that the owner of Redis puts into keys of writ never reach
// memory.
// How: Replies of Redis are limited; a mark of another type counts as missing and is replaced.
func TestLargeValuesNeverReachMemory(t *testing.T) {
	redisURL := testenv.Redis(t).URL // not parallel, because it measures the heap
	w := startWorker(t, redisURL, released())
	w.push("a")
	w.next("a")
	w.gone("a")
	const large = 24 << 20
	for _, name := range []string{generationKey, "large"} {
		if err := w.redis.SetRange(t.Context(), name, large, "x").Err(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		if mark, err := w.queue.Generation(t.Context()); err != nil || len(mark) > 100 {
			t.Errorf("Generation = %d bytes, %v", len(mark), err)
		}
	}
	const add = `
local text = redis.call("GET", "large")
redis.call("HSET", KEYS[1], "msg", text, "state", "pending", "pending_since", 1)
redis.call("LPUSH", KEYS[2], ARGV[1])
redis.call("LPUSH", KEYS[3], text)`
	keys := []string{key(testNode, taskKey+"huge"), key(testNode, "pending"), key(testNode, "active")}
	if err := w.redis.Eval(t.Context(), add, keys, "huge").Err(); err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	w.push("b")
	w.next("b")
	w.gone("huge", "b")
	runtime.ReadMemStats(&after)
	// All allocations, not only live ones.
	if grown := int64(after.TotalAlloc) - int64(before.TotalAlloc); grown > 32<<20 {
		t.Errorf("%d MiB were taken from the heap", grown>>20)
	}
	if err := w.redis.Del(t.Context(), generationKey).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.redis.LPush(t.Context(), generationKey, "x").Err(); err != nil {
		t.Fatal(err)
	}
	if mark, err := w.queue.Generation(t.Context()); mark != "" || err != nil {
		t.Errorf("a mark of another type is %q, %v", mark, err)
	}
	if err := w.queue.SetGeneration(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	if mark, err := w.queue.Generation(t.Context()); mark != "7" || err != nil {
		t.Errorf("Generation = %q, %v", mark, err)
	}
}

// Promise: Recovery: A node gets its tasks again after its queue was paused or its lists were replaced or removed.
// How: The survey of the supervisor deletes such keys; a task in none of the lists counts as missing and is sent again.
func TestSpoiledQueueIsRepaired(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"paused", "active", "lease", "retry", "pending"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redisURL := testenv.Redis(t).URL
			w, supervisor := startWorker(t, redisURL, released()), open(t, redisURL)
			accounts := supervisor.Accounts(testDatacenter)
			w.push("a")
			w.next("a")
			w.gone("a")
			if err := w.redis.Del(t.Context(), key(testNode, name)).Err(); err != nil {
				t.Fatal(err)
			}
			if err := w.redis.Set(t.Context(), key(testNode, name), "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
			sent := 0
			for deadline := time.Now().Add(guard); ; {
				id := fmt.Sprint("b", sent)
				missing, err := supervisor.Missing(t.Context(), testNode, id)
				if err != nil {
					t.Fatal(err)
				}
				if sent == 0 || len(missing) > 0 { // as the supervisor does it
					sent++
					if err := supervisor.Push(t.Context(), testNode,
						queue.Task{ID: fmt.Sprint("b", sent), EndBy: time.Now().Add(time.Minute)}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := accounts.Survey(t.Context()); err != nil {
					t.Fatal(err)
				}
				select {
				case <-w.came:
					return
				case <-time.After(100 * time.Millisecond):
				}
				if time.Now().After(deadline) {
					t.Fatalf("no task arrived; sent %d", sent)
				}
			}
		})
	}
}

func TestTasksInNoListAreMissing(t *testing.T) {
	t.Parallel()
	redisURL := testenv.Redis(t).URL
	q, admin := open(t, redisURL), client(t, redisURL)
	for _, id := range []string{"a", "b"} {
		if err := q.Push(t.Context(), testNode, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.LRem(t.Context(), key(testNode, "pending"), 0, "a").Err(); err != nil {
		t.Fatal(err)
	}
	if missing, err := q.Missing(t.Context(), testNode, "a", "b"); err != nil || !slices.Equal(missing, []string{"a"}) {
		t.Errorf("Missing = %q, %v", missing, err)
	}
}

// Each of them reaches asynq, which calls no handler for it, because its message has the name of a finished task.
func TestTasksWithoutHandlersAreFew(t *testing.T) {
	t.Parallel()
	redisURL := testenv.Redis(t).URL
	w := startWorker(t, redisURL, released())
	w.push("a")
	w.next("a")
	w.gone("a")
	text := "\xff\xff"
	const n = 3000
	pipe := w.redis.Pipeline()
	for i := range n {
		id := fmt.Sprint("stranger-", i)
		pipe.HSet(t.Context(), key(testNode, taskKey+id), "msg", text, "state", "pending", "pending_since", 1)
		pipe.LPush(t.Context(), key(testNode, "pending"), id)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.push("b")
	most := 0
	for deadline := time.Now().Add(guard); ; {
		most = max(most, len(w.queue.prefetchers.at(testNode).gave()))
		if most > 4+maxIdle {
			t.Fatalf("asynq has %d tasks", most)
		}
		if w.redis.LLen(t.Context(), key(testNode, "pending")).Val() < n {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is taken")
		}
	}
	for range 200 {
		most = max(most, len(w.queue.prefetchers.at(testNode).gave()))
		time.Sleep(2 * time.Millisecond)
	}
	if most > 4+maxIdle {
		t.Errorf("asynq has %d tasks", most)
	}
}

func TestMadeUpNodesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	redisURL := testenv.Redis(t).URL
	q, admin := open(t, redisURL), client(t, redisURL)
	const add = `
for i = ARGV[1], ARGV[1] + 9999 do
	redis.call("SET", string.format("asynq:{%08x-0000-7000-8000-000000000000}:x", i), 1)
end
return 1`
	for i := range 6 {
		if err := admin.Eval(t.Context(), add, nil, i*10_000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	accounts := q.Accounts(testDatacenter)
	for accounts.sweep.keys == 0 { // until a pass is complete
		if _, err := accounts.Survey(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(accounts.sweep.has); n != maxSwept {
		t.Errorf("%d nodes are in memory, want %d", n, maxSwept)
	}
}

func TestDeliveriesOfANodeAreBounded(t *testing.T) {
	t.Parallel()
	var ds deliveries
	running, _ := ds.begin(testNode, "running")
	for i := range 3 * maxDeliveries {
		d, _ := ds.begin(testNode, fmt.Sprint(i))
		close(d.done)
	}
	if n := len(ds.of[testNode]); n > maxDeliveries {
		t.Errorf("%d deliveries are in memory", n)
	}
	if ds.get(testNode, "running") != running {
		t.Error("a delivery whose handler runs was forgotten")
	}
}
