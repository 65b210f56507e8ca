package hosted

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"writ"
	"writ/sal"
)

// slowServed is a driver whose Process blocks until found is closed.
type slowServed struct {
	sal.Served
	found  chan struct{}
	closed chan struct{}
}

func (s slowServed) Process(context.Context, writ.ResourceID) (sal.Process, error) {
	<-s.found
	return endless{s.closed}, nil
}

// endless is a process that does not exit.
type endless struct{ closed chan struct{} }

func (e endless) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (e endless) Close() { close(e.closed) }

func TestExitWatchClosesProcessesBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewExitWatch(slog.New(slog.DiscardHandler))
		d := slowServed{found: make(chan struct{}), closed: make(chan struct{})}
		go w.Watch(d, writ.ResourceID{Name: "shop-db"})
		synctest.Wait() // the driver is in Process
		ended := make(chan struct{})
		go func() {
			w.Close()
			close(ended)
		}()
		synctest.Wait()
		close(d.found)
		<-ended
		select {
		case <-d.closed:
		default:
			t.Error("the watch ended before it closed a process")
		}
		synctest.Wait()
	})
}
