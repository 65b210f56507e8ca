package storm

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	standby    = "dc1b"
	supervisor = "supervisor" // a kind of victim
)

// victim is a component that is killed and restarted.
type victim struct {
	kind   string
	weight int           // relative frequency
	kill   func() string // returns the name under which the kill is counted
	start  func()
	pause  time.Duration // maximum downtime
	gone   func() bool   // whether it exited without a kill
	same   *victim       // another way to disturb the same process, or nil

	back  func()    // start, or a function that resumes it; nil while it runs
	until time.Time // when to restart it
}

// process returns a victim that is a process of writ.
func (s *storm) process(kind, name string, weight int) *victim {
	return &victim{
		kind: kind, weight: weight, pause: 3 * time.Second,
		kill: func() string {
			s.cluster.Kill(name)
			return kind
		},
		start: func() { s.cluster.Launch(name) },
		gone:  func() bool { return s.cluster.Procs[name].Ended() },
	}
}

// gather collects the victims.
func (s *storm) gather() {
	s.victims = append(s.victims, s.process("coordinator", "coord", 10))
	if s.variant.standby { // a lease expires after ten seconds: with higher weights, no supervisor would ever serve
		for _, name := range []string{datacenter, standby} {
			killed, stopped := s.process(supervisor, name, 2), s.pausable(name, 2)
			killed.same, stopped.same = stopped, killed
			s.victims = append(s.victims, killed, stopped)
		}
	} else {
		s.victims = append(s.victims, s.process(supervisor, datacenter, 10))
	}
	for _, node := range s.nodes {
		s.victims = append(s.victims, s.process("runner", node, 5))
	}
	s.redis = &victim{
		kind: "Redis", weight: 10, pause: 3 * time.Second, kill: s.killRedis, start: s.broker.Start, gone: func() bool { return false },
	}
	s.victims = append(s.victims, s.redis)
}

// pausable returns a victim that stops a supervisor with SIGSTOP for a time, possibly longer than its lease.
func (s *storm) pausable(name string, weight int) *victim {
	signal := func(what syscall.Signal) {
		if err := s.cluster.Procs[name].Cmd.Process.Signal(what); err != nil {
			s.t.Errorf("signal %s: %v", name, err)
		}
	}
	return &victim{
		kind: supervisor, weight: weight, pause: 20 * time.Second,
		kill: func() string {
			signal(syscall.SIGSTOP)
			return "SIGSTOP of a supervisor"
		},
		start: func() { signal(syscall.SIGCONT) },
		gone:  func() bool { return s.cluster.Procs[name].Ended() },
	}
}

// killRedis kills Redis. Some storms then restore its files from an earlier copy.
func (s *storm) killRedis() string {
	s.broker.Kill()
	if !s.variant.snapshot {
		return "Redis"
	}
	from, to, what := s.broker.Dir, filepath.Join(s.cluster.Dir, "redis-before"), "Redis"
	if _, err := os.Stat(to); err == nil && s.luck.IntN(2) == 0 {
		from, to, what = to, from, "Redis to an old snapshot"
	}
	if err := os.RemoveAll(to); err != nil {
		s.t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
	return what
}

// flush deletes all data in Redis.
func (s *storm) flush(c *redis.Client) {
	ctx, stop := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer stop()
	if err := c.FlushAll(ctx).Err(); err != nil {
		s.t.Errorf("FLUSHALL: %v", err)
	}
	s.struck["FLUSHALL"]++
}

// blow kills and restarts victims until the number of kills is reached and all runs are submitted.
func (s *storm) blow() {
	s.gather()
	options, err := redis.ParseURL(s.broker.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	next := time.Now().Add(s.between(shortest, longest))
	given := 0 // tokens for submissions; the last one comes with the last kill
	for killed := 0; !s.t.Failed() && (killed < s.kills || !s.allHandedIn()); {
		timer := time.NewTimer(time.Until(s.soonest(next)))
		select {
		case <-timer.C:
		case <-tell.C:
			timer.Stop()
			s.tell()
			continue
		}
		now := time.Now()
		s.bringBack(now)
		if now.Before(next) {
			continue
		}
		next = now.Add(s.between(shortest, longest))
		killed++
		for ; given < len(s.work) && given*s.kills < killed*len(s.work); given++ {
			s.turns <- struct{}{}
		}
		s.strike(c, killed > s.kills-sparing)
	}
	s.lastKill = time.Now()
	for s.anyAway() {
		time.Sleep(time.Until(s.soonest(s.lastKill.Add(time.Minute))))
		s.bringBack(time.Now())
	}
}

// sparing is the number of final kills that spare supervisors. A starting supervisor redelivers everything, and losses
// must also be detected without that.
const sparing = 10

// strike kills a running victim.
func (s *storm) strike(c *redis.Client, spare bool) {
	flushes := 0
	if s.variant.flushall && s.redis.back == nil {
		flushes = 5
	}
	total := flushes
	there := slices.DeleteFunc(slices.Clone(s.victims), func(v *victim) bool {
		return v.back != nil || v.same != nil && v.same.back != nil || spare && v.kind == supervisor
	})
	for _, v := range there {
		total += v.weight
	}
	if total == 0 {
		return
	}
	at := s.luck.IntN(total) - flushes
	if at < 0 {
		s.flush(c)
		return
	}
	i := slices.IndexFunc(there, func(v *victim) bool {
		at -= v.weight
		return at < 0
	})
	v := there[i]
	if v.gone() {
		s.t.Errorf("a %s ended without being killed", v.kind)
		return
	}
	s.struck[v.kill()]++
	v.back, v.until = v.start, time.Now()
	if s.luck.IntN(2) == 0 {
		v.until = v.until.Add(s.between(0, v.pause))
	}
	s.bringBack(time.Now())
}

func (s *storm) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.luck.Int64N(int64(most-least)))
}

// soonest returns when the next victim is due to restart, but at most next.
func (s *storm) soonest(next time.Time) time.Time {
	for _, v := range s.victims {
		if v.back != nil && v.until.Before(next) {
			next = v.until
		}
	}
	return next
}

func (s *storm) bringBack(now time.Time) {
	for _, v := range s.victims {
		if v.back != nil && !v.until.After(now) {
			v.back()
			v.back = nil
		}
	}
}

func (s *storm) anyAway() bool {
	return slices.ContainsFunc(s.victims, func(v *victim) bool { return v.back != nil })
}

func (s *storm) allHandedIn() bool {
	select {
	case <-s.handedIn:
		return true
	default:
		return false
	}
}

// oneNodeAPI starts a load balancer for the node APIs of two supervisors and returns its URL. The supervisor that does
// not serve responds with 503.
func oneNodeAPI(t *testing.T, addresses ...string) string {
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {},
		Transport: firstThatServes(addresses),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	})
	t.Cleanup(server.Close)
	return server.URL
}

type firstThatServes []string

func (addresses firstThatServes) RoundTrip(r *http.Request) (response *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for i, nodeAPI := range addresses {
		again := r.Clone(r.Context())
		again.URL.Scheme, again.URL.Host = "http", nodeAPI
		again.Body = io.NopCloser(bytes.NewReader(body))
		short, stop := again, context.CancelFunc(func() {})
		if i < len(addresses)-1 { // a stopped supervisor does not respond
			var ctx context.Context
			ctx, stop = context.WithTimeout(r.Context(), 2*time.Second)
			short = again.WithContext(ctx)
		}
		response, err = http.DefaultTransport.RoundTrip(short)
		if err != nil {
			stop()
			continue
		}
		if response.StatusCode == http.StatusServiceUnavailable && i < len(addresses)-1 {
			response.Body.Close()
			stop()
			continue
		}
		answer, failed := io.ReadAll(response.Body)
		response.Body.Close()
		stop()
		response.Body, err = io.NopCloser(bytes.NewReader(answer)), failed
		if err == nil {
			return response, nil
		}
	}
	return response, err
}
