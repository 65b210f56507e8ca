package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// calls holds the keys of driver calls that have not returned.
type calls struct{ open sync.Map }

// errLooking is the error for a driver that ignores its deadline.
var errLooking = errors.New("the driver has not finished its maintenance")

// errNotAsked wraps errLooking. It is the error for a driver that was not called, because its previous call has not
// returned.
var errNotAsked = fmt.Errorf("%w", errLooking)

// asked calls a driver through `ask`, with a context that ends after `most`. If the call has not returned stuckAfter
// later, asked returns errLooking. While a call with the same key (what) has not returned, asked returns errNotAsked. A
// panic of the driver is returned as an error.
func asked[T any](
	ctx context.Context, c *calls, what string, most time.Duration, ask func(ctx context.Context) (T, error),
) (T, error) {
	type said struct {
		answer T
		err    error
	}
	if _, busy := c.open.LoadOrStore(what, true); busy {
		return said{}.answer, errNotAsked
	}
	limited, stop := context.WithTimeout(ctx, most)
	done := make(chan said, 1)
	go func() {
		defer stop()
		defer c.open.Delete(what)
		var s said
		defer func() {
			if p := recover(); p != nil {
				s.err = fmt.Errorf("the driver panicked: %v", p)
			}
			done <- s
		}()
		s.answer, s.err = ask(limited)
	}()
	select {
	case s := <-done:
		return s.answer, s.err
	case <-limited.Done():
	}
	late := time.NewTimer(stuckAfter)
	defer late.Stop()
	select {
	case s := <-done:
		return s.answer, s.err
	case <-late.C:
		return said{}.answer, errLooking
	}
}
