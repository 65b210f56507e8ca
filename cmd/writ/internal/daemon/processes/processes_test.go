package processes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// service returns a process that notes when it begins and ends.
func service(log *[]string, name string) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		*log = append(*log, "+"+name)
		ready()
		<-ctx.Done()
		*log = append(*log, "-"+name)
		return nil
	}
}

func TestProcessesEndInReverseOrder(t *testing.T) {
	var log []string
	p, _ := New(t.Context())
	for _, name := range []string{"a", "b", "c"} {
		if err := p.Start(t.Context(), name, service(&log, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if want := []string{"+a", "+b", "+c", "-c", "-b", "-a"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

// Each peer ends only after the other one was stopped, so stopping them in turn would never finish.
func TestPeersEndAtTheSameTime(t *testing.T) {
	var log []string
	p, _ := New(t.Context())
	if err := p.Start(t.Context(), "a", service(&log, "a")); err != nil {
		t.Fatal(err)
	}
	var told sync.WaitGroup
	told.Add(2)
	for _, name := range []string{"n1", "n2"} {
		err := p.StartPeer(t.Context(), name, func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			told.Done()
			told.Wait()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(t.Context(), "b", service(&log, "b")); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if want := []string{"+a", "+b", "-b", "-a"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

func TestProcessThatDoesNotStartIsNamedAndOthersAreStopped(t *testing.T) {
	var log []string
	p, _ := New(t.Context())
	broken := errors.New("broken")
	if err := p.Start(t.Context(), "a", service(&log, "a")); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), "b", func(context.Context, func()) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("start = %v, want %v", err, broken)
	}
	if err := p.Stop(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "b: ") {
		t.Errorf("stop = %v, want b: broken", err)
	}
	if want := []string{"+a", "-a"}; !slices.Equal(log, want) {
		t.Errorf("%v, want %v", log, want)
	}
}

func TestDeadProcessEndsItsWaiters(t *testing.T) {
	p, serving := New(t.Context())
	die := make(chan struct{})
	err := p.Start(t.Context(), "a", func(_ context.Context, ready func()) error {
		ready()
		<-die
		return errors.New("died")
	})
	if err != nil {
		t.Fatal(err)
	}
	close(die)
	<-serving.Done()
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "died") {
		t.Errorf("stop = %v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, _ := New(t.Context())
	err := p.Start(ctx, "a", func(ctx context.Context, _ func()) error {
		cancel()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("start = %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
