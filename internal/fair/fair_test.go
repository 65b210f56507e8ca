package fair_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ/internal/fair"
)

// serve serves one item at a time until a time. Each item takes its own duration. It records the time that each tenant
// got.
func serve(q *fair.Queue[time.Duration], until time.Duration, got map[string]time.Duration) {
	for now := time.Duration(0); now < until; {
		cost, g, ok := q.Next(now, nil)
		if !ok {
			return
		}
		now += cost
		got[g.Tenant] += cost
		q.End(g, cost)
		q.Push(g.Tenant, cost) // every tenant always has demand
	}
}

func TestTenantsGetEqualTimeForItemsOfAnyCost(t *testing.T) {
	var q fair.Queue[time.Duration]
	for range 40 {
		q.Push("slow", 2*time.Second)
	}
	q.Push("quick", time.Millisecond)
	q.Push("other", 50*time.Millisecond)
	got := map[string]time.Duration{}
	serve(&q, 10*time.Minute, got)
	for name, d := range got {
		if d < 195*time.Second || d > 205*time.Second {
			t.Errorf("%s got %s of ten minutes, three of them want all", name, d)
		}
	}
}

func TestWeightsShareTheTime(t *testing.T) {
	q := fair.Queue[time.Duration]{Weight: func(tenant string) int { return map[string]int{"heavy": 3}[tenant] }}
	q.Push("heavy", 7*time.Millisecond)
	q.Push("light", 5*time.Millisecond)
	got := map[string]time.Duration{}
	serve(&q, time.Minute, got)
	if ratio := got["heavy"].Seconds() / got["light"].Seconds(); ratio < 2.95 || ratio > 3.05 {
		t.Errorf("heavy got %s and light %s, want 3 to 1", got["heavy"], got["light"])
	}
}

func TestNewTenantIsServedFirstWithoutCredit(t *testing.T) {
	var q fair.Queue[time.Duration]
	for range 3 {
		q.Push("old", time.Second)
	}
	serve(&q, time.Hour, map[string]time.Duration{})
	q.Push("new", time.Second)
	if _, g, _ := q.Next(0, nil); g.Tenant != "new" {
		t.Fatalf("%s is first, want new, which has used no time", g.Tenant)
	}
	var after fair.Queue[time.Duration]
	after.Push("old", time.Second)
	serve(&after, time.Hour, map[string]time.Duration{})
	after.Push("new", time.Second)
	got := map[string]time.Duration{}
	serve(&after, 100*time.Second, got)
	if got["new"] > 52*time.Second {
		t.Errorf("new got %s of 100 s: it is compensated for an idle hour", got["new"])
	}
}

func TestRunningTimeCounts(t *testing.T) {
	var q fair.Queue[string]
	first := q.Begin("a", 0)
	q.Push("a", "more")
	q.Push("b", "one")
	if _, g, _ := q.Next(time.Second, nil); g.Tenant != "b" {
		t.Errorf("%s is next while one of a is served for a second, want b", g.Tenant)
	}
	q.End(first, time.Second)
}

// Tenants submit items at random. A tenant with constant demand gets at least its share, minus one item.
func TestNoTenantFallsBehind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var q fair.Queue[time.Duration]
		q.Push("steady", time.Duration(1+random.IntN(100))*time.Millisecond)
		tenants := 1 + random.IntN(5)
		got := map[string]time.Duration{}
		var now time.Duration
		for now < time.Minute {
			for i := range tenants {
				if random.IntN(3) == 0 {
					q.Push(fmt.Sprint(i), time.Duration(1+random.IntN(2000))*time.Millisecond)
				}
			}
			cost, g, _ := q.Next(now, nil)
			now += cost
			got[g.Tenant] += cost
			q.End(g, cost)
			if g.Tenant == "steady" {
				q.Push("steady", cost)
			}
		}
		if least := now/time.Duration(tenants+1) - 2100*time.Millisecond; got["steady"] < least {
			t.Errorf("steady got %s of %s among %d tenants, want %s", got["steady"], now, tenants+1, least)
		}
	}
}

func TestNewTenantAlwaysGetsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &fair.Slots{Size: 64}
		ctx, stop := context.WithCancel(t.Context())
		for range 130 {
			go func() { _, _ = slots.Enter(ctx, "hangs") }()
		}
		synctest.Wait()
		for i := range 100 {
			leave, err := slots.Enter(t.Context(), "works")
			if err != nil {
				t.Fatal(i, err)
			}
			leave()
		}
		if taken, waiting := slots.Taken(); taken != fair.Most(64) || taken != 48 || waiting != 82 {
			t.Errorf("%d slots are taken and %d wait, want 48 and 82", taken, waiting)
		}
		stop()
		synctest.Wait()
		if _, waiting := slots.Taken(); waiting != 0 {
			t.Errorf("%d wait whose time is over", waiting)
		}
	})
}

func TestTenantCanBeLimitedToOneSlot(t *testing.T) {
	slots := &fair.Slots{Size: 2, Most: 1}
	first, err := slots.Enter(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(fmt.Errorf("enough"))
	if _, err := slots.Enter(ctx, "one"); err == nil || err.Error() != "enough" {
		t.Errorf("Enter = %v, want the cause", err)
	}
	second, err := slots.Enter(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	first()
	second()
	if taken, _ := slots.Taken(); taken != 0 {
		t.Errorf("%d slots are taken", taken)
	}
}

func TestPlacesAreSharedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &fair.Slots{Size: 2}
		var mu sync.Mutex
		spent := map[string]time.Duration{}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		spend := func(tenant string, each time.Duration) {
			for {
				leave, err := slots.Enter(ctx, tenant)
				if err != nil {
					return
				}
				time.Sleep(each)
				mu.Lock()
				spent[tenant] += each
				mu.Unlock()
				leave()
			}
		}
		for range 20 {
			go spend("long", 30*time.Second)
			go spend("short", time.Second)
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		synctest.Wait()
		if ratio := spent["long"].Seconds() / spent["short"].Seconds(); ratio < 0.85 || ratio > 1.18 {
			t.Errorf("long spent %s and short %s in slots, want the same", spent["long"], spent["short"])
		}
	})
}

// SECURITY.md documents these numbers: with four slots or more, one tenant leaves a slot free; with sixteen or more,
// two tenants do.
func TestTenantsThatFillAllSlotsAreCounted(t *testing.T) {
	for slots := 1; slots <= 64; slots++ {
		first := fair.Most(slots)
		second := fair.Most(slots - first)
		if left := slots - first; (left == 0) != (slots < 4) {
			t.Errorf("of %d slots one leaves %d", slots, left)
		}
		if left := slots - first - second; (left == 0) != (slots < 16) {
			t.Errorf("of %d slots two leave %d", slots, left)
		}
	}
}
