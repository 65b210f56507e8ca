package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"writ/cmd/writ/internal/bench/peer"
	"writ/internal/test/testenv"
)

// Small orders that every system runs in these tests.
var orders = []peer.Order{{Runs: 4, InFlight: 2, Calls: 3}, {Runs: 2, InFlight: 1, Calls: 20, AtOnce: true}}

func TestNewestPostgresIsChosen(t *testing.T) {
	all := []string{"/usr/lib/postgresql/15/bin/postgres", "/usr/lib/postgresql/17/bin/postgres", "/usr/lib/postgresql/9.6/bin/postgres"}
	if got := slices.MaxFunc(all, compareReleases); got != all[1] {
		t.Errorf("got %s", got)
	}
}

func TestRiverCarriesOutEveryCall(t *testing.T) {
	testenv.Need(t, "postgres")
	system, end, err := openRiver(t.Context(), peer.Settings{Dir: t.TempDir(), Slots: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	for _, o := range orders {
		carryOut(t, system, o)
		r := system.(*riverPeer)
		var jobs int
		if err := r.pool.QueryRow(t.Context(), "SELECT count(*) FROM river_job WHERE (args->>'epoch')::bigint = $1", r.epoch).Scan(&jobs); err != nil || jobs != o.Runs*o.Calls {
			t.Errorf("%d jobs, %v; want %d", jobs, err, o.Runs*o.Calls)
		}
	}
}

func TestTemporalCarriesOutEveryRun(t *testing.T) {
	testenv.Need(t, "temporal")
	system, end, err := openTemporal(t.Context(), peer.Settings{Dir: t.TempDir(), Slots: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	for _, o := range orders {
		carryOut(t, system, o)
	}
}

func carryOut(t *testing.T, system peer.System, o peer.Order) {
	t.Helper()
	if a := system.About(); a.Name == "" || a.Durability == "" {
		t.Errorf("%+v", a)
	}
	took, err := peer.CarryOut(t.Context(), system, o)
	if err != nil || len(took.Runs) != o.Runs || slices.Min(took.Runs) <= 0 {
		t.Errorf("%+v: %v, %v", o, took, err)
	}
}

func TestMissingPeersAreReported(t *testing.T) {
	var out bytes.Buffer
	if err := peer.Program(t.Context(), kinds(), nil, nil, &out); err != nil {
		t.Fatal(err)
	}
	var offers peer.Offers
	if err := json.Unmarshal(out.Bytes(), &offers); err != nil || len(offers.Systems) != 2 {
		t.Fatalf("%s, %v", &out, err)
	}
	there, err := testenv.Has("temporal")
	if temporal := offers.Systems[1]; err != nil || temporal.Name != "temporal" || (temporal.Missing == "") != there {
		t.Errorf("%+v, but temporal is installed: %v, %v", temporal, there, err)
	}
}

func TestVersionOfTheServerIsFound(t *testing.T) {
	for said, want := range map[string]string{
		"temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)\n": "1.29.1",
		"temporal\n": "",
	} {
		if got := serverVersion(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
