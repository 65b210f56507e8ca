package sqldb

import (
	"errors"
	"testing"
	"time"
)

// vagueEngine loses the connection during each commit, and then the wait for its outcome ends.
type vagueEngine struct{ attempts int }

func (e *vagueEngine) close() error { return nil }

func (e *vagueEngine) attempt(*Tx, []*change, bool, <-chan struct{}) ([]error, bool, error) {
	e.attempts++
	return nil, true, errUnknown
}

// A repetition could write changes a second time.
func TestChangesThatMayBeCommittedAreNotRepeated(t *testing.T) {
	e := new(vagueEngine)
	w := newCommitter(time.Now, func(err error) error { return err })
	w.engine = e
	group := []*change{{done: make(chan error, 1)}, {done: make(chan error, 1)}}
	w.commit(group)
	if e.attempts != 1 {
		t.Errorf("%d attempts instead of 1", e.attempts)
	}
	for _, c := range group {
		if err := <-c.done; !errors.Is(err, errUnknown) {
			t.Errorf("a change ended with %v", err)
		}
	}
}
