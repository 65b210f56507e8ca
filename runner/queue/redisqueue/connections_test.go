package redisqueue

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// connectAs opens a connection as a user, with a client name.
func connectAs(t *testing.T, redisURL, user, password, name string) *bare {
	t.Helper()
	at, err := url.Parse(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", at.Host, guard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(guard))
	words := []string{"HELLO", "2", "AUTH", user, password, "SETNAME", name}
	c := &bare{Reader: bufio.NewReader(conn), t: t, conn: conn}
	c.say(words...)
	if line, err := c.ReadString('\n'); err != nil || line[0] != '*' {
		t.Fatalf("HELLO = %q, %v", line, err)
	}
	return c
}

// bare is a connection without a client library.
type bare struct {
	*bufio.Reader
	t    *testing.T
	conn net.Conn
}

// say sends a command to Redis.
func (c *bare) say(words ...string) {
	c.t.Helper()
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		request += string(asBulk([]byte(w)))
	}
	if _, err := c.conn.Write([]byte(request)); err != nil {
		c.t.Fatal(err)
	}
}

// fails sends a command that Redis refuses.
func (c *bare) fails(words ...string) {
	c.t.Helper()
	c.say(words...)
	for { // the rest of the previous reply
		line, err := c.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		if line[0] == '-' {
			return
		}
	}
}

// Promise: Nodes and Redis: A node cannot occupy the connections of Redis for long.
// How: When half of them are taken, the supervisor suspends each node with more than 64, which closes its
// connections.
// Also: TestANodeStaysWithinItsConnections.
func TestNodeHoardingConnectionsIsFound(t *testing.T) {
	t.Parallel()
	for what, name := range map[string]string{"": "x", "under names that exceed the read limit": strings.Repeat("x", 100<<10)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newTwo(t)
			at := "redis://" + d.admin.Options().Addr
			if err := d.admin.ConfigSet(t.Context(), "maxclients", "150").Err(); err != nil {
				t.Fatal(err)
			}
			take := func(node writ.NodeID, n int) (last *bare) {
				for range n {
					last = connectAs(t, at, d.accounts.User(node), d.passwords[node], name)
				}
				return last
			}
			take(otherNode, 20)
			taken := take(testNode, queue.BudgetConnections-10)
			if got := d.findings(); len(got) > 0 {
				t.Errorf("findings within the limits: %+v", got)
			}
			take(testNode, 11)
			if got := d.findings()[queue.TooMany]; got.Count <= queue.BudgetConnections {
				t.Errorf("found %+v", got)
			}
			if err := d.accounts.Apply(t.Context(), map[writ.NodeID]string{otherNode: d.passwords[otherNode]}); err != nil {
				t.Fatal(err)
			}
			for {
				if _, err := taken.ReadString('\n'); err != nil {
					if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
						t.Error("its connections stay")
					}
					break
				}
			}
			take(otherNode, 20)
			if got := d.findings(); len(got) > 0 {
				t.Errorf("found %+v after they are closed", got)
			}
		})
	}
}

// Including connections for pipelines and for subscriptions, a node stays within the supervisor's limit.
func TestANodeStaysWithinItsConnections(t *testing.T) {
	q, err := Server{URL: testenv.Redis(t).URL, Connections: NodeConnections}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	most := 2 // asynq's subscriptions
	for _, o := range []struct{ pool, pipelines int }{
		{q.client.Options().PoolSize, q.client.Options().PipelinePoolSize}, {q.reader.Options().PoolSize, q.reader.Options().PipelinePoolSize},
	} {
		most += o.pool + max(o.pipelines, 10) // the default of go-redis
	}
	if most > queue.BudgetConnections {
		t.Errorf("a node may have %d connections, and opens up to %d", queue.BudgetConnections, most)
	}
}

// Redis writes a negative difference as an unsigned number, which once led to a finding of exabytes of names.
func TestDatasetBelowZeroIsZero(t *testing.T) {
	for text, want := range map[string]int64{"18446744073709011728": 0, "123": 123, "": 0} {
		if got := dataset(map[string]string{"used_memory_dataset": text}); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
