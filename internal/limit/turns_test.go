package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestManyRequestsDelayNoOtherNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{Size: 1}
		first, err := turns.Take(t.Context(), "many")
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		wait := func(network string) {
			release, err := turns.Take(t.Context(), network)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, network)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			release()
		}
		for range 100 {
			go wait("many")
		}
		synctest.Wait()
		go wait("one")
		time.Sleep(time.Millisecond)
		first()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if at := slices.Index(order, "one"); at < 0 || at > 1 || len(order) != 101 {
			t.Errorf("the other network is number %d of %d", at, len(order))
		}
	})
}

func TestCancelledRequestLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{Size: 1}
		first, err := turns.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := turns.Take(ctx, "b"); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled request: %v", err)
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		first()
		last, err := turns.Take(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		last()
		last()
		if turns.taken != 0 || turns.line.Len() != 0 {
			t.Errorf("%d turns are taken, %d requests wait", turns.taken, turns.line.Len())
		}
	})
}

func TestTurnsLetOtherRequestsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, began := new(Turns), time.Now()
		take := func() time.Duration {
			release, err := turns.Take(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return 0
			}
			release()
			return time.Since(began)
		}
		take()
		end := turns.Precede()
		if at := take(); at != pace {
			t.Errorf("the second turn began after %s, want %s", at, pace)
		}
		if at := take(); at != 2*pace {
			t.Errorf("the third turn began after %s, want %s", at, 2*pace)
		}
		go func() { time.Sleep(pace / 2); end() }()
		if at := take(); at != 2*pace+pace/2 {
			t.Errorf("the turn after the other request began after %s", at)
		}
	})
}
