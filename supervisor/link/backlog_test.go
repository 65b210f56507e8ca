package link

import (
	"sync"
	"testing"
)

// The reader of a session may still receive frames when the session ends. They must not take room from other sessions.
func TestClosedBacklogReservesNoMemory(t *testing.T) {
	shared := new(intake)
	b := newBacklog(shared)
	var reader sync.WaitGroup
	reader.Go(func() {
		for range 100 {
			if err := b.put(t.Context(), []byte("[]")); err != nil {
				t.Error(err)
			}
		}
	})
	b.close()
	reader.Wait()
	for range 2 {
		if err := b.put(t.Context(), []byte("[]")); err != nil {
			t.Error(err)
		}
	}
	if n := shared.undecoded.Load(); n != 0 {
		t.Errorf("%d bytes are reserved after the end of the session", n)
	}
}
