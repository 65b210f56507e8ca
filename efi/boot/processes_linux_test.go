package boot

import (
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// If the loop that collects exits and restarts programs is stuck, the watchdog gets no signs of life.
func TestStuckLoopSendsNoHeartbeat(t *testing.T) {
	signals, ticks, free := make(chan os.Signal), make(chan time.Time), make(chan struct{})
	var did []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		turn(signals, ticks, func() { <-free; did = append(did, "took") }, func() { did = append(did, "alive") })
	}()
	ticks <- time.Time{}
	select {
	case ticks <- time.Time{}:
		t.Error("the watchdog continues although it is stuck")
	case signals <- unix.SIGCHLD:
		t.Error("it hears a signal while it is stuck")
	default:
	}
	close(free)
	signals <- unix.SIGCHLD
	close(signals)
	<-ended
	if want := []string{"took", "alive", "took", "alive"}; !slices.Equal(did, want) {
		t.Errorf("it did %q", did)
	}
}
