package takeover

import (
	"testing"
	"testing/synctest"
	"time"

	"writ/supervisor/journal"
)

func TestLeaseIsHeldForLessThanItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(Lease)
		time.Sleep(time.Hour)
		if !l.Held() {
			t.Error("the lease of a journal for one process has ended")
		}
		began := time.Now()
		l.since.Store(&began)
		for time.Since(began) < 2*journal.RenewEvery {
			if !l.Held() {
				t.Fatalf("the lease has ended after %s, before its next renewal", time.Since(began))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Until(began.Add(journal.LeaseTime - time.Second)))
		if l.Held() {
			t.Error("the lease is held while a read of one second could end after it")
		}
	})
}
