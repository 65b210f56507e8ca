package wake_test

import (
	"testing"

	"writ/internal/wake"
)

func TestSignalsBeforeAReceiveCountAsOne(t *testing.T) {
	s := wake.New()
	s.Raise()
	s.Raise()
	<-s
	select {
	case <-s:
		t.Error("the second signal was received as well")
	default:
	}
	s.Raise()
	<-s
}
