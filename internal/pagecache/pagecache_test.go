package pagecache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// made returns a function that makes a page of a size and counts its calls.
func made(size int, calls *atomic.Int32) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		calls.Add(1)
		return make([]byte, size), nil
	}
}

const near, far = "192.0.2.1:1", "198.51.100.1:1"

func TestCallersShareOnePage(t *testing.T) {
	c := &Cache{MaxBytes: 100, Patience: time.Second}
	var calls atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			lease, err := c.Get(t.Context(), near, "1", made(40, &calls))
			if err != nil || len(lease.Body) != 40 {
				t.Errorf("%v, %v", lease, err)
				return
			}
			lease.Release()
			lease.Release() // has no effect
		})
	}
	all.Wait()
	if calls.Load() != 1 || c.Bytes() != 40 {
		t.Errorf("the page was built %d times and has %d bytes", calls.Load(), c.Bytes())
	}
}

// reader is a slow caller: it does not read until a deadline ends its write.
type reader struct {
	net.Conn
	other net.Conn
}

func slowReader() *reader {
	here, there := net.Pipe()
	return &reader{here, there}
}

// send sends a page to a slow reader, and returns a channel of the error.
func send(l *Lease) chan error {
	r, ended := slowReader(), make(chan error, 1)
	go func() {
		defer r.other.Close()
		defer r.Close()
		ended <- l.Send(r, r)
	}()
	return ended
}

func TestSlowCallersKeepNoPageFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cache{MaxBytes: 100, Patience: 5 * time.Second, MinHold: 2 * time.Second}
		var calls atomic.Int32
		get := func(remote, key string, size int) (*Lease, time.Duration) {
			t.Helper()
			began := time.Now()
			lease, err := c.Get(t.Context(), remote, key, made(size, &calls))
			if err != nil || c.Bytes() > 100 {
				t.Fatalf("page %s: %v, %d bytes are in use", key, err, c.Bytes())
			}
			return lease, time.Since(began)
		}
		honest, _ := get(far, "1", 40)
		kept := send(honest)
		time.Sleep(time.Second)
		first, _ := get(near, "2", 30)
		second, _ := get(near, "3", 30)
		ends := []chan error{send(first), send(second)}
		synctest.Wait()

		other, waited := get("203.0.113.1:1", "4", 30)
		if waited != 2*time.Second {
			t.Errorf("it waited %v for a page while slow callers hold all", waited)
		}
		other.Release()
		if err := <-ends[0]; err == nil {
			t.Error("the oldest page of the network with the most pages was sent")
		}
		again, waited := get(far, "2", 30) // the page is built again for the next caller
		if waited != 0 || calls.Load() != 5 {
			t.Errorf("it waited %v, and %d pages were built", waited, calls.Load())
		}
		again.Release()
		select {
		case err := <-kept:
			t.Errorf("a caller of another network lost its page: %v", err)
		default:
		}
		big, waited := get("203.0.113.1:1", "5", 90) // needs all of the room
		if waited != 0 {                             // all leases are older than MinHold
			t.Errorf("it waited %v for all others", waited)
		}
		big.Release()
		<-kept
		<-ends[1]
	})
}

func TestWaitForAPageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cache{MaxBytes: 100, Patience: 5 * time.Second, MinHold: time.Minute}
		var calls atomic.Int32
		first, err := c.Get(t.Context(), near, "1", made(60, &calls))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), far, "2", made(60, &calls)); !errors.Is(err, ErrBusy) || c.Bytes() != 60 {
			t.Errorf("a page without room: %v, %d bytes", err, c.Bytes())
		}
		go func() {
			time.Sleep(time.Second)
			first.Release()
		}()
		second, err := c.Get(t.Context(), far, "2", made(60, &calls))
		if err != nil || c.Bytes() != 60 {
			t.Fatalf("after a release: %v, %d bytes", err, c.Bytes())
		}
		second.Release()
		for i := range 10 { // idle pages are evicted
			lease, err := c.Get(t.Context(), near, fmt.Sprint("x", i), made(60, &calls))
			if err != nil || c.Bytes() > 100 {
				t.Fatalf("%v, %d bytes", err, c.Bytes())
			}
			lease.Release()
		}
	})
}

func TestAFailedPageIsBuiltAgain(t *testing.T) {
	c := &Cache{MaxBytes: 100, Patience: time.Second}
	broken := errors.New("broken")
	if _, err := c.Get(t.Context(), near, "1", func(context.Context) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	var calls atomic.Int32
	// Alone, it may exceed MaxBytes.
	if _, err := c.Get(t.Context(), near, "1", made(200, &calls)); err != nil || calls.Load() != 1 {
		t.Errorf("%v", err)
	}
}
