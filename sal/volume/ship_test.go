package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

// ship keeps a volume for a transfer.
func (b *fixture) ship(transfer string, due time.Time) error {
	b.Helper()
	a, err := b.Ship(b.Context(), sal.Shipment{
		Transfer: transfer, Resource: saltest.Resource(writ.KindVolume, "data"), UID: "u1", Due: due, Until: due.Add(time.Hour),
	})
	if err == nil {
		err = a.Close()
	}
	return err
}

// lostViews counts its open views, and returns a directory that does not exist.
type lostViews struct {
	sal.Trees
	open int
}

func (l *lostViews) View(ctx context.Context, name, snapshot string) (string, func() error, error) {
	dir, done, err := l.Trees.View(ctx, name, snapshot)
	if err != nil {
		return dir, done, err
	}
	l.open++
	return filepath.Join(dir, "gone"), func() error { l.open--; return done() }, nil
}

func TestFailedShipmentReleasesItsView(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(t testing.TB) *fixture) {
		b := fresh(t)
		b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
		views := &lostViews{Trees: b.Trees}
		b.Trees = views
		if err := b.ship("run", time.Now().Add(time.Hour)); err == nil || views.open != 0 {
			t.Errorf("%v, and %d views are open", err, views.open)
		}
	})
}

// kept returns the transfers that a volume is kept for.
func (b *fixture) kept() (transfers []string) {
	b.Helper()
	r, err := b.records().Get(saltest.Resource(writ.KindVolume, "data"))
	if err != nil {
		b.Fatal(err)
	}
	all, err := b.Trees.Snapshots(b.Context(), r.Resource.HostName())
	if err != nil || len(all) != len(r.Own.Shipments) {
		b.Errorf("%d copies with snapshots %v, %v", len(r.Own.Shipments), all, err)
	}
	for _, s := range r.Own.Shipments {
		transfers = append(transfers, s.Transfer)
	}
	return transfers
}

// The refusal of a ninth transfer lists the other transfers and their expiry. After the first of them expired, a
// transfer is accepted again.
func TestCopiesOfAVolumeAreLimited(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(t testing.TB) *fixture) {
		b, now := fresh(t), time.Date(2031, 5, 1, 9, 0, 0, 0, time.UTC)
		b.Now = func() time.Time { return now }
		b.must("volume.create", "data", map[string]any{"size_gib": int64(1)})
		for i := range maxShipments {
			if err := b.ship(fmt.Sprintf("run-%d", i), now.Add(time.Duration(maxShipments-i)*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		e := writ.AsError(b.ship("late", now.Add(time.Hour)))
		if e == nil || e.Code != writ.CodeResourceBusy || !e.Retryable() {
			t.Fatalf("one too many: %v", e)
		}
		for _, want := range []string{"8 copies", "run-0 until 2031-05-01 09:08:00", "run-7 until 2031-05-01 09:01:00"} {
			if !strings.Contains(e.Message, want) {
				t.Errorf("message lacks %q: %s", want, e.Message)
			}
		}
		if err := b.ship("run-7", now.Add(3*time.Minute)); err != nil {
			t.Errorf("repeated transfer: %v", err)
		}
		now = now.Add(2*time.Minute + time.Second)
		if err := b.ship("late", now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(b.kept(), " "); got != "run-0 run-1 run-2 run-3 run-4 run-5 run-7 late" {
			t.Errorf("it is kept for %s", got)
		}
	})
}
