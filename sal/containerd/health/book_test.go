package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// probes gives all probes the same result.
type probes struct {
	mu     sync.Mutex
	result error
	blocks bool // until the probe is cancelled
	count  int
	start  time.Time
}

func (p *probes) probe(ctx context.Context, _ Subject) error {
	p.mu.Lock()
	p.count++
	result, blocks := p.result, p.blocks
	p.mu.Unlock()
	if blocks {
		<-ctx.Done()
		time.Sleep(time.Second) // to kill a program
		return ctx.Err()
	}
	return result
}

func (p *probes) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *probes) set(result error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result = result
}

var (
	web     = writ.ResourceID{Kind: writ.KindContainer, Name: "web"}
	subject = Subject{Resource: web, Container: "web-1", Check: check}
)

// start runs a book until the test ends.
func start(t *testing.T, b *Book, p *probes) {
	t.Helper()
	p.start = time.Now()
	runBook(t, b, p.probe)
}

func runBook(t *testing.T, b *Book, probe func(context.Context, Subject) error) {
	t.Helper()
	runBookTelling(t, b, probe, func(context.Context, Subject) {})
}

func runBookTelling(
	t *testing.T, b *Book, probe func(context.Context, Subject) error, changed func(context.Context, Subject),
) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.Run(ctx, probe, changed); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// follow returns the changes of the health of web in the next seconds.
func (p *probes) follow(b *Book, seconds int) (changes []string) {
	last := ""
	for range seconds {
		synctest.Wait()
		if s, _ := b.State(web, "web-1"); s.Word+s.Cause != last {
			last = s.Word + s.Cause
			changes = append(changes, s.Word+" "+s.Cause)
		}
		time.Sleep(time.Second)
	}
	return changes
}

func refused(detail string) *Failure { return &Failure{"connection refused", detail} }

func TestHealthChangesAfterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		p := &probes{}
		start(t, &b, p)
		b.Began(subject)
		const first = `unhealthy connection refused: "1"`
		for i, step := range []struct {
			result  error
			seconds int // two probes are ten seconds apart
			want    []string
		}{
			{refused("0"), 9, []string{"starting "}},
			{nil, 20, []string{"starting ", "healthy "}},
			{refused("1"), 15, []string{"healthy "}},
			{refused("1"), 15, []string{"healthy ", first}},
			{refused("2"), 20, []string{first}}, // the same fault with another text
			{&Failure{Cause: "status 500"}, 10, []string{first, "unhealthy status 500"}},
			{nil, 10, []string{"unhealthy status 500", "healthy "}},
			{refused("3"), 20, []string{"healthy "}},
			{nil, 10, []string{"healthy "}},
			{refused("3"), 20, []string{"healthy "}},
		} {
			p.set(step.result)
			if diff := cmp.Diff(step.want, p.follow(&b, step.seconds)); diff != "" {
				t.Errorf("step %d:\n%s", i, diff)
			}
		}
	})
}

func TestFailuresBeforeTheStartTimeDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		p := &probes{result: refused("")}
		start(t, &b, p)
		b.Began(subject)
		time.Sleep(20 * time.Second)
		b.Began(subject) // its program was restarted
		if got := p.follow(&b, 30); !cmp.Equal(got, []string{"starting "}) {
			t.Errorf("in its start time, it is %v", got)
		}
		if got := p.follow(&b, 20); len(got) != 2 || !strings.HasSuffix(got[1], "unhealthy connection refused") {
			t.Errorf("after its start time, it is %v", got)
		}
	})
}

func TestUnknownResultChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		p := &probes{result: errors.New("the daemon is away")}
		start(t, &b, p)
		b.Watch(subject, &State{"web-1", "healthy", ""})
		time.Sleep(time.Hour)
		if s, _ := b.State(web, "web-1"); s.Word != "healthy" {
			t.Errorf("it is %+v", s)
		}
		if n := p.times(); n < 3000 || n > 3600 {
			t.Errorf("it was probed %d times", n)
		}
	})
}

func TestSavedStateIsOfItsContainer(t *testing.T) {
	var b Book
	saved := &State{"web-1", "unhealthy", "status 500"}
	b.Watch(subject, saved)
	if s, _ := b.State(web, "web-1"); s != *saved {
		t.Errorf("it is %+v", s)
	}
	next := subject
	next.Container = "web-2"
	b.Watch(next, saved)
	if s, _ := b.State(web, "web-2"); s.Word != "starting" || s.Cause != "" {
		t.Errorf("its replacement is %+v", s)
	}
	if s, known := b.State(web, "web-1"); known {
		t.Errorf("the replaced one is %+v", s)
	}
	b.Passed(next)
	b.Watch(next, saved)
	if s, _ := b.State(web, "web-2"); s.Word != "healthy" {
		t.Errorf("after a successful call it is %+v", s)
	}
	b.Forget(web)
	if s, known := b.State(web, "web-2"); known {
		t.Errorf("without a check it is %+v", s)
	}
}

func TestInterruptWaitsForTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		p := &probes{blocks: true}
		start(t, &b, p)
		b.Interrupt(web) // nothing runs
		b.Watch(subject, nil)
		time.Sleep(5 * time.Second)
		b.Interrupt(web)
		if took := time.Since(p.start); took != 6*time.Second {
			t.Errorf("it returned after %s", took)
		}
		if s, _ := b.State(web, "web-1"); s.Word != "starting" {
			t.Errorf("an interrupted probe made it %+v", s)
		}
	})
}

func TestResultOfAnEarlierProcessIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		runBook(t, &b, func(context.Context, Subject) error { time.Sleep(2 * time.Second); return nil })
		b.Began(subject)
		time.Sleep(time.Second)
		b.Began(subject)
		time.Sleep(1500 * time.Millisecond) // the first probe succeeded, the second one runs
		if s, _ := b.State(web, "web-1"); s.Word != "starting" {
			t.Errorf("it is %+v", s)
		}
		time.Sleep(time.Minute)
		if s, _ := b.State(web, "web-1"); s.Word != "healthy" {
			t.Errorf("in the end it is %+v", s)
		}
	})
}

func TestSlowContainerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		p := &probes{blocks: true}
		start(t, &b, p)
		for i := range 100 {
			s := subject
			s.Resource.Name = fmt.Sprintf("slow-%d", i)
			b.Watch(s, nil)
		}
		synctest.Wait()
		p.mu.Lock()
		p.blocks = false
		p.mu.Unlock()
		b.Began(subject)
		time.Sleep(time.Second)
		if s, _ := b.State(web, "web-1"); s.Word != "healthy" {
			t.Errorf("beside slow ones it is %+v", s)
		}
	})
}

// Run reports each change of the health, after which the container can be probed again.
func TestBookReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		p := &probes{}
		var mu sync.Mutex
		var reported []string
		runBookTelling(t, &b, p.probe, func(_ context.Context, s Subject) {
			b.Interrupt(s.Resource) // as an operation on the container would do
			state, _ := b.State(s.Resource, s.Container)
			mu.Lock()
			reported = append(reported, state.Word)
			mu.Unlock()
			time.Sleep(15 * time.Second)
		})
		b.Began(subject)
		for _, result := range []error{nil, refused("1"), &Failure{Cause: "status 500"}, nil, errors.New("the daemon is away")} {
			p.set(result)
			time.Sleep(time.Minute)
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"healthy", "unhealthy", "healthy"}, reported); diff != "" {
			t.Error(diff)
		}
		if n := p.times(); n < 25 {
			t.Errorf("%d probes in five minutes", n)
		}
	})
}
