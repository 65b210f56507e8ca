//go:build failpoints

package failpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// armed is an entry of the plan: a place where this process ends or a write fails.
type armed struct {
	point Point
	mode  Mode
	nth   int64 // number of the first visit that triggers it
	seen  atomic.Int64
	fired atomic.Bool // true once it has triggered; untorn resets it if no bytes were sent
}

// plan and steps are parsed from the environment variable. plan holds the entries NAME:MODE, and steps the entry with a
// ledger file, if any. An invalid plan ends the process, because a test relies on it.
var plan, steps = func() ([]*armed, *ledger) {
	all, steps, err := parse(os.Getenv(Variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return all, steps
}()

func parse(text string) (all []*armed, steps *ledger, err error) {
	for one := range strings.SplitSeq(text, ";") {
		if one == "" {
			continue
		}
		if how, path, ok := strings.Cut(one, ":"); ok && (how == Steps || how == Noted) {
			steps = &ledger{path: path, lives: how == Noted}
			continue
		}
		parts := strings.Split(one, ":")
		if len(parts) < 2 || len(parts) > 3 {
			return nil, nil, fmt.Errorf("%s: %q is not NAME:MODE or NAME:MODE:TIME", Variable, one)
		}
		a := &armed{point: Point(parts[0]), mode: Mode(parts[1]), nth: 1}
		if place, ok := Find(a.point); !ok && !strings.HasPrefix(parts[0], stepPrefix) {
			return nil, nil, fmt.Errorf("%s: unknown place %q", Variable, a.point)
		} else if ok && !slices.Contains(place.Kind.Modes(), a.mode) || !ok && a.mode != Before {
			return nil, nil, fmt.Errorf("%s: %s has no mode %q", Variable, a.point, a.mode)
		}
		if len(parts) == 3 {
			if a.nth, err = strconv.ParseInt(parts[2], 10, 64); err != nil || a.nth < 1 {
				return nil, nil, fmt.Errorf("%s: %q is not a count", Variable, parts[2])
			}
		}
		all = append(all, a)
	}
	return all, steps, nil
}

// reached reports whether the plan triggers at this visit.
func (p Point) reached(m Mode) bool {
	for _, a := range plan {
		if a.point == p && a.mode == m && a.seen.Add(1) >= a.nth && a.fired.CompareAndSwap(false, true) {
			return true
		}
	}
	return false
}

// die ends the process with SIGKILL, after it has printed the point.
func (p Point) die(m Mode) {
	fmt.Fprintf(os.Stderr, "failpoint %s:%s\n", p, m)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func (p Point) full() error {
	fmt.Fprintf(os.Stderr, "failpoint %s:%s\n", p, Fail)
	return fmt.Errorf("failpoint %s: %w", p, syscall.ENOSPC)
}

// mark is a write or send in progress. It is used by one goroutine at a time.
type mark struct {
	point  Point
	failed bool // set when Amid fails the change, so that a repetition of the change fails again
}

type markKey struct{}

func markOf(ctx context.Context) *mark {
	if m, ok := ctx.Value(markKey{}).(*mark); ok {
		return m
	}
	return &mark{}
}

// At names the write or send that is performed with a context.
func At(ctx context.Context, p Point) context.Context {
	return context.WithValue(ctx, markKey{}, &mark{point: p})
}

// Begin is called before the change or message named with At.
func Begin(ctx context.Context) { markOf(ctx).point.Begin() }

// Amid is called after a change and before its commit. Its error rolls the change back.
func Amid(ctx context.Context) error {
	m := markOf(ctx)
	if m.point.reached(Torn) {
		m.point.die(Torn)
	}
	if m.failed || m.point.reached(Fail) {
		m.failed = true
		return m.point.full()
	}
	return nil
}

// End is called after the write or send, before its outcome err is reported.
func End(ctx context.Context, err error) { markOf(ctx).point.End(err) }

// Begin is like the function Begin, for code without a context. For mode Torn, the next bytes that this goroutine sends
// are cut.
func (p Point) Begin() {
	if p.reached(Before) {
		p.die(Before)
	}
	if place, _ := Find(p); (place.Kind == Send || place.Kind == Answer) && p.reached(Torn) {
		tearing.Store(&tear{p, goroutine()})
	}
}

// End is like the function End, for code without a context.
func (p Point) End(err error) {
	p.untorn()
	if err == nil && p.reached(After) {
		p.die(After)
	}
}

// untorn is called at the end of a message. If this goroutine should have torn it but wrote no bytes, as after a failed
// connection attempt, the next message is torn instead.
func (p Point) untorn() {
	t := tearing.Load()
	if t == nil || t.point != p || t.goroutine != goroutine() || !tearing.CompareAndSwap(t, nil) {
		return
	}
	for _, a := range plan {
		if a.point == p && a.mode == Torn {
			a.fired.Store(false)
		}
	}
}

// Write writes to a file.
func (p Point) Write(f *os.File, text []byte) (int, error) {
	switch {
	case p.reached(Before):
		p.die(Before)
	case p.reached(Torn):
		_, _ = f.Write(text[:len(text)/2])
		_ = f.Sync()
		p.die(Torn)
	case p.reached(Fail):
		n, _ := f.Write(text[:len(text)/2])
		return n, p.full()
	}
	return f.Write(text)
}

// OfFile returns the point of a file name.
func OfFile(path string) Point {
	name := filepath.Base(path)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".new"), ".tmp") // temporary names
	for _, place := range Places {
		if fits, _ := filepath.Match(place.files, name); fits {
			return place.Point
		}
	}
	return ""
}

// OfFrame returns the point of a JSON message that starts with its type.
func OfFrame(data []byte) Point {
	var head struct{ Type, Verb string }
	if err := json.Unmarshal(data, &head); err != nil {
		return ""
	}
	p := Point("link/" + head.Type)
	if head.Verb != "" {
		p += Point("-" + head.Verb)
	}
	if _, ok := Find(p); !ok {
		return ""
	}
	return p
}

// tear is a goroutine whose next bytes to another process are cut in half.
type tear struct {
	point     Point
	goroutine int
}

var tearing atomic.Pointer[tear]

// goroutine returns the number of the calling goroutine. The number identifies the sender of bytes: in all libraries
// that writ uses, the goroutine that sends a message also writes to the connection.
func goroutine() int {
	text := make([]byte, 64)
	text = bytes.TrimPrefix(text[:runtime.Stack(text, false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.Atoi(string(number))
	return n
}

// conn is a connection that can be torn.
type conn struct{ net.Conn }

func (c conn) Write(b []byte) (int, error) {
	if t := tearing.Load(); t != nil && t.goroutine == goroutine() {
		_, _ = c.Conn.Write(b[:len(b)/2])
		t.point.die(Torn)
	}
	return c.Conn.Write(b)
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// Listener returns a listener whose connections can be torn.
func Listener(l net.Listener) net.Listener { return listener{l} }

// Dial opens connections; see Dialer.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a dial function whose connections can be torn. If d is nil, it uses net.Dialer.DialContext.
func Dialer(d Dial) Dial {
	if d == nil {
		d = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn{c}, nil
	}
}

const stepPrefix = "step/"

// Step returns the function that drivers of a module call before each change of their host.
func Step(module string) func(name string) {
	return func(name string) {
		p := Point(stepPrefix + module + "/" + name)
		if steps != nil && steps.fresh(string(p)) {
			p.die(Before)
		}
		p.Begin()
	}
}

// ledger is the file of the steps at which a process has ended. If lives is set, it is the file of the steps that a
// process has reached. Each line has a step and the number of times that the process had reached it.
type ledger struct {
	path  string
	lives bool // record the steps without ending the process

	mu   sync.Mutex
	done map[string]bool // lines of the file
	seen map[string]int  // how often this process has reached each step
}

// made matches the generated parts of names, which would make every step unique.
var made = regexp.MustCompile(`[0-9a-f]{6,}|[0-9]+`)

// fresh reports whether the process must end here, because no process has ended at this step before, and records the
// step. If it returns true, it keeps the lock, so that no other goroutine takes a step before the process ends.
func (l *ledger) fresh(step string) bool {
	l.mu.Lock()
	if l.done == nil {
		l.done, l.seen = map[string]bool{}, map[string]int{}
		text, err := os.ReadFile(l.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			panic(err)
		}
		for line := range strings.Lines(string(text)) {
			l.done[strings.TrimSuffix(line, "\n")] = true
		}
	}
	step = made.ReplaceAllString(step, "#")
	l.seen[step]++
	entry := fmt.Sprintf("%s %d", step, l.seen[step])
	if l.done[entry] {
		l.mu.Unlock()
		return false
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(entry + "\n")
	}
	if err != nil {
		panic(err) // without its line in the file, every later process would end here again
	}
	if !l.lives {
		return true
	}
	l.done[entry] = true
	_ = f.Close()
	l.mu.Unlock()
	return false
}
