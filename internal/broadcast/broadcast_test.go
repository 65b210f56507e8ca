package broadcast_test

import (
	"testing"

	"writ/internal/broadcast"
)

func TestWakeReachesEarlierWaitersOnly(t *testing.T) {
	var s broadcast.Signal
	s.Wake() // without waiters
	first, second := s.Next(), s.Next()
	s.Wake()
	later := s.Next()
	<-first
	<-second
	select {
	case <-later:
		t.Error("a wake reached a waiter that came after it")
	default:
	}
}
