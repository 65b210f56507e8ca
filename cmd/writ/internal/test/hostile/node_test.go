//go:build linux

package hostile

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/redis/go-redis/v9"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/secret"
	"writ/supervisor/nodes"
)

// nodeAttacks lists the attacks of a compromised node, with its key, its Redis account and its access to the node API.
// Attacks that may suspend the account come last.
var nodeAttacks = []attack{
	{"node", "joins", "hellos and claims at the node API", joins},
	{"node", "fetches", "payloads, rosters, accounts and standings asked for", fetches},
	{"node", "connections", "connections held open at the node API and at Redis", connections},
	{"node", "wrong-type", "keys of its queue that are of another type", wrongType},
	{"node", "results", "signed results of runs that do not exist", results},
	{"node", "beats", "signed beats without a pause", beats},
	{"node", "old-beats", "signed beats of an earlier epoch, many in a message", oldBeats},
	{"node", "reports", "signed reports without a pause, with usage of others and states that change", reports},
	{"node", "garbage", "messages that cannot be opened", garbage(1 << 10)},
	{"node", "oversize", "messages of 6 MiB", garbage(6 << 20)},
	{"node", "fill", "its queue at Redis filled, and looked through again and again", fill},
}

// member holds the node's membership data.
type member struct {
	Cluster    writ.ClusterID    `json:"cluster"`
	Datacenter writ.DatacenterID `json:"datacenter"`
	Node       writ.NodeID       `json:"node"`
}

func (a *attacker) member() (m member, err error) {
	text, err := os.ReadFile(filepath.Join(a.node, "member.json"))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// account requests the node's Redis account, as its runner does.
func (a *attacker) account(ctx context.Context) (m member, user, password string, err error) {
	if m, err = a.member(); err != nil {
		return m, "", "", err
	}
	key, err := a.nodeKey()
	if err != nil {
		return m, "", "", err
	}
	text, err := os.ReadFile(filepath.Join(a.node, "age.key"))
	if err != nil {
		return m, "", "", err
	}
	reader, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		return m, "", "", err
	}
	asked, err := envelope.Sign(envelope.AccountRequest, key, nodes.AccountRequest{Node: m.Node, Scripts: nodes.ScriptsLoaded})
	if err != nil {
		return m, "", "", err
	}
	signed, err := (&nodes.Client{URL: a.NodeAPI, HTTP: a.http}).Account(ctx, m.Node, asked)
	if err != nil {
		return m, "", "", err
	}
	found, _, err := envelope.Open[nodes.Account](envelope.Account, signed, envelope.Only(a.roster.Datacenters[0].SupervisorKey))
	if err != nil {
		return m, "", "", err
	}
	password, err = secret.Open(found[0].Secret, secret.AccountLabel(m.Cluster, m.Datacenter, m.Node), reader)
	return m, found[0].User, password, err
}

// redis connects to Redis with the node's account and runs an action until the context ends. A revoked account is
// requested again.
func (a *attacker) redis(ctx context.Context, do func(c *redis.Client, m member) func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		m, user, password, err := a.account(ctx)
		if err != nil {
			a.outcome(err)
			sleep(ctx, time.Second)
			continue
		}
		to, err := url.Parse(a.Redis)
		if err != nil {
			return err
		}
		c := redis.NewClient(&redis.Options{Addr: to.Host, Username: user, Password: password, MaxRetries: -1})
		step := do(c, m)
		for bad := 0; bad < 20 && ctx.Err() == nil; {
			if a.pace.Wait(ctx) != nil {
				break
			}
			if err := step(ctx); err != nil && ctx.Err() == nil {
				a.count("refused by Redis", 1)
				bad++
				continue
			}
			bad = 0
			a.count("done", 1)
		}
		_ = c.Close()
		sleep(ctx, 100*time.Millisecond)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func out(m member) string { return "writ:{" + string(m.Node) + "}:out" }

// garbage sends invalid messages of a given size.
func garbage(size int) func(ctx context.Context, a *attacker) error {
	return func(ctx context.Context, a *attacker) error {
		body := make([]byte, size)
		_, _ = rand.Read(body)
		return a.redis(ctx, func(c *redis.Client, m member) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
					for range max(1, min(50, (1<<20)/size)) {
						p.XAdd(ctx, &redis.XAddArgs{Stream: out(m), Values: []any{"b", body}})
					}
					return nil
				})
				return err
			}
		})
	}
}

// signed sends messages with the given records, signed by the node.
func (a *attacker) signed(ctx context.Context, kind envelope.Kind, records func(m member, number int64) []any) error {
	key, err := a.nodeKey()
	if err != nil {
		return err
	}
	return a.redis(ctx, func(c *redis.Client, m member) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			body, err := envelope.Sign(kind, key, records(m, a.number.Add(1))...)
			if err != nil {
				return err
			}
			return c.XAdd(ctx, &redis.XAddArgs{Stream: out(m), Values: []any{"b", body}}).Err()
		}
	})
}

func beats(ctx context.Context, a *attacker) error {
	return a.signed(ctx, envelope.Beat, func(m member, number int64) []any {
		b := writ.Beat{Node: m.Node, Boot: "hostile", Incarnation: 1 << 40, Sequence: number, Clock: time.Now().UnixMilli(), Epoch: 1 << 62, Health: writ.Health{Slots: 16}}
		for seq := range 60 {
			b.Active = append(b.Active, writ.JobKey{Run: noRun(number), Seq: seq + 1, Attempt: 1})
		}
		return []any{b}
	})
}

func oldBeats(ctx context.Context, a *attacker) error {
	return a.signed(ctx, envelope.Beat, func(m member, number int64) (all []any) {
		for i := range int64(envelope.MaxRecords) {
			all = append(all, writ.Beat{Node: m.Node, Boot: "hostile", Incarnation: 1, Sequence: number<<8 | i, Clock: time.Now().UnixMilli(), Epoch: 1, Health: writ.Health{Slots: 16}})
		}
		return all
	})
}

func reports(ctx context.Context, a *attacker) error {
	return a.signed(ctx, envelope.Report, func(m member, number int64) (all []any) {
		for i := range int64(envelope.MaxRecords) {
			id := writ.ResourceID{Project: writ.ProjectID("6c1f3c1e-7d0b-4bb5-9a7e-5a1d2f0c9b11"), Kind: writ.KindMachine, Name: "another's"}
			r := writ.Report{Node: m.Node, Incarnation: 1 << 40, Round: number<<8 | i, Epoch: 1 << 62}
			for range 50 {
				r.Usage = append(r.Usage, writ.Usage{ResourceID: id, UID: "u", Hour: time.Now().UTC().Truncate(time.Hour), Used: writ.Used{CPUSeconds: 1 << 60}})
				r.States = append(r.States, writ.ResourceState{ResourceID: id, UID: "u", Standing: writ.Standing{State: fmt.Sprint(number)}})
			}
			all = append(all, r)
		}
		return all
	})
}

func results(ctx context.Context, a *attacker) error {
	return a.signed(ctx, envelope.Result, func(m member, number int64) (all []any) {
		for i := range int64(envelope.MaxRecords) {
			all = append(all, writ.Result{JobKey: writ.JobKey{Run: noRun(number<<8 | i), Seq: 1, Attempt: 1}, Node: m.Node, Boot: "hostile", Incarnation: 1})
		}
		return all
	})
}

// noRun returns the id of a run that does not exist.
func noRun(number int64) writ.RunID {
	return writ.RunIDOf(writ.DigestOf(fmt.Appendf(nil, "%d", number)))
}

// wrongType repeatedly replaces the keys of the node's queue by values of another type.
func wrongType(ctx context.Context, a *attacker) error {
	return a.redis(ctx, func(c *redis.Client, m member) func(ctx context.Context) error {
		queue := "asynq:{" + string(m.Node) + "}:"
		return func(ctx context.Context) error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Del(ctx, queue+"pending", queue+"active")
				p.HSet(ctx, queue+"pending", "a", "b")
				p.RPush(ctx, queue+"lease", "a")
				p.HSet(ctx, queue+"active", "a", "b")
				return nil
			})
			return err
		}
	})
}

// fill keeps a list of maximum size in its queue and reads it repeatedly.
func fill(ctx context.Context, a *attacker) error {
	return a.redis(ctx, func(c *redis.Client, m member) func(ctx context.Context) error {
		key := "asynq:{" + string(m.Node) + "}:hostile"
		some := make([]any, 2000)
		for i := range some {
			some[i] = "0123456789abcdef"
		}
		return func(ctx context.Context) error {
			if n := a.number.Add(1); n%50 != 0 {
				return c.RPush(ctx, key, some...).Err()
			}
			return c.LRem(ctx, key, 0, "nobody").Err() // scans the whole list and returns a few bytes
		}
	})
}

func joins(ctx context.Context, a *attacker) error {
	api := &nodes.Client{URL: a.NodeAPI, HTTP: a.http}
	key, err := a.nodeKey()
	if err != nil {
		return err
	}
	return a.flood(ctx, 16, func(ctx context.Context) error {
		nonce := make([]byte, identity.NonceSize)
		_, _ = rand.Read(nonce)
		hello := nodes.Hello{Name: fmt.Sprintf("n%d", a.number.Add(1)), Key: key.Public().(ed25519.PublicKey), Nonce: nonce}
		proof, err := api.Greet(ctx, hello)
		if err != nil {
			return err
		}
		_, err = api.Admit(ctx, nodes.Claim{Hello: hello, Nonce: proof.Nonce, Signature: make([]byte, 64)})
		return err
	})
}

func fetches(ctx context.Context, a *attacker) error {
	api := &nodes.Client{URL: a.NodeAPI, HTTP: a.http}
	m, err := a.member()
	if err != nil {
		return err
	}
	key, err := a.nodeKey()
	if err != nil {
		return err
	}
	asked, err := envelope.Sign(envelope.AccountRequest, key, nodes.AccountRequest{Node: m.Node, Scripts: nodes.ScriptsLoaded})
	if err != nil {
		return err
	}
	return a.flood(ctx, 32, func(ctx context.Context) (err error) {
		switch n := a.number.Add(1); n % 4 {
		case 0:
			_, err = api.Payload(ctx, writ.DigestOf(fmt.Appendf(nil, "%d", n)))
		case 1:
			_, err = api.Rosters(ctx, 0)
		case 2:
			_, err = api.Account(ctx, m.Node, asked)
		case 3:
			_, err = api.Standing(ctx, m.Node, make([]byte, identity.NonceSize))
		}
		return err
	})
}

// held is the number of connections held open per server.
const held = 400

// connections opens connections and sends a byte now and then: to the node API within a request's header, to Redis
// within a login.
func connections(ctx context.Context, a *attacker) error {
	address, err := url.Parse(a.NodeAPI)
	if err != nil {
		return err
	}
	server, err := url.Parse(a.Redis)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range 2 * held {
		to, begin := address.Host, "POST /v1/join/hello HTTP/1.1\r\nHost: "+address.Host+"\r\nX-Slow: "
		if i%2 == 1 {
			to, begin = server.Host, "*1000\r\n$3\r\nSET\r\n$100000\r\n"
		}
		all.Go(func() { a.dribble(ctx, to, begin) })
	}
	all.Wait()
	return nil
}

// dribble keeps a connection open until the server closes it, and then opens another one.
func (a *attacker) dribble(ctx context.Context, to, begin string) {
	for a.pace.Wait(ctx) == nil {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.From)}}).DialContext(ctx, "tcp", to)
		if err != nil {
			a.count("refused", 1)
			sleep(ctx, 100*time.Millisecond)
			continue
		}
		a.count("opened", 1)
		_, err = io.WriteString(c, begin)
		for err == nil && ctx.Err() == nil {
			sleep(ctx, 200*time.Millisecond)
			_, err = io.WriteString(c, "x")
		}
		_ = c.Close()
	}
}
