package coord

import (
	"testing"
	"time"

	"writ"
)

func TestWhatCouldNotBeDeliveredIsOwedAlthoughAnotherWas(t *testing.T) {
	k := &courier{c: &Coordinator{}, delayed: map[writ.Digest]time.Time{}, finished: map[writ.Digest]bool{}}
	k.later(writ.Digest{1}, writ.Errorf(writ.CodeStoreUnavailable, "no space left"))
	k.done(writ.Digest{2})
	if !k.owes() {
		t.Error("nobody tries it again")
	}
	k.done(writ.Digest{1})
	if k.owes() {
		t.Error("it is still owed")
	}
}
