package pagecache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// made returns a function that makes a page of a size and counts how often it is called.
func made(size int, calls *atomic.Int32) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		calls.Add(1)
		return make([]byte, size), nil
	}
}

func TestCallersShareOnePage(t *testing.T) {
	c := &Cache{MaxBytes: 100, Patience: time.Second}
	var calls atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			body, release, err := c.Get(t.Context(), "1", made(40, &calls))
			if err != nil || len(body) != 40 {
				t.Errorf("%d bytes, %v", len(body), err)
				return
			}
			release()
			release() // twice counts once
		})
	}
	all.Wait()
	if calls.Load() != 1 || c.Bytes() != 40 {
		t.Errorf("the page was built %d times and has %d bytes", calls.Load(), c.Bytes())
	}
}

func TestPagesInUseAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cache{MaxBytes: 100, Patience: 5 * time.Second}
		var calls atomic.Int32
		_, first, err := c.Get(t.Context(), "1", made(60, &calls))
		if err != nil {
			t.Fatal(err)
		}
		c.Forget() // its caller still has it
		if _, _, err := c.Get(t.Context(), "2", made(60, &calls)); !errors.Is(err, ErrBusy) || c.Bytes() != 60 {
			t.Errorf("a page without room: %v, %d bytes", err, c.Bytes())
		}
		go func() {
			time.Sleep(time.Second)
			first()
		}()
		_, second, err := c.Get(t.Context(), "2", made(60, &calls))
		if err != nil || c.Bytes() != 60 {
			t.Fatalf("after a release: %v, %d bytes", err, c.Bytes())
		}
		second()
		for i := range 10 { // idle pages make room
			_, release, err := c.Get(t.Context(), fmt.Sprint("x", i), made(60, &calls))
			if err != nil || c.Bytes() > 100 {
				t.Fatalf("%v, %d bytes", err, c.Bytes())
			}
			release()
		}
	})
}

func TestAFailedPageIsBuiltAgain(t *testing.T) {
	c := &Cache{MaxBytes: 100, Patience: time.Second}
	broken := errors.New("broken")
	if _, _, err := c.Get(t.Context(), "1", func(context.Context) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	var calls atomic.Int32
	if _, _, err := c.Get(t.Context(), "1", made(200, &calls)); err != nil || calls.Load() != 1 { // alone, it may be larger than the bound
		t.Errorf("%v", err)
	}
}
