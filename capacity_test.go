package writ_test

import (
	"encoding/json"
	"math"
	"testing"

	"writ"
	"writ/internal/cbor"
)

func TestHundredthsAreExact(t *testing.T) {
	for text, want := range map[string]writ.Hundredths{
		"0": 0, "1": 100, "0.25": 25, "0.5": 50, "0.01": 1, "256": 25600, "10.1": 1010, "-0.25": -25, "-1.5": -150,
	} {
		got, err := writ.ParseHundredths(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is read as %d and shown as %s, %v", text, got, got, err)
		}
	}
	for _, text := range []string{"0.10", "1.00", "01"} {
		if _, err := writ.ParseHundredths(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "0.001", "0.125", "1e2", ".5", "1.", "NaN", "Inf", " 1", "1,5", "9999999999999999"} {
		if h, err := writ.ParseHundredths(text); err == nil {
			t.Errorf("%q is read as %s", text, h)
		}
	}
}

func TestCapacitiesAreAddedExactly(t *testing.T) {
	half, third := writ.Capacity{Hundredths: 50, MemoryMiB: 1}, writ.Capacity{CPUs: 1, Hundredths: 33}
	sum := writ.Capacity{}
	for range 300 {
		sum = sum.Plus(third)
	}
	if want := (writ.Capacity{CPUs: 399}); sum != want {
		t.Errorf("300 times 1.33 is %+v", sum)
	}
	if got, want := half.Plus(half), (writ.Capacity{CPUs: 1, MemoryMiB: 2}); got != want {
		t.Errorf("0.5 + 0.5 is %+v", got)
	}
	if got := half.Minus(third); got.CPU() != -83 || got.Hundredths < 0 || got.Hundredths > 99 {
		t.Errorf("0.5 - 1.33 is %+v", got)
	}
	if half.Minus(third).Plus(third) != half {
		t.Error("a difference and its sum differ")
	}
	if third.Holds(third.Plus(writ.Capacity{Hundredths: 1})) || !third.Holds(third) {
		t.Error("a hundredth makes no difference")
	}
}

func TestCapacityIsEncoded(t *testing.T) {
	for want, c := range map[string]writ.Capacity{
		`{"cpus":8,"memory_mib":1024,"disk_gib":3}`: {CPUs: 8, MemoryMiB: 1024, DiskGiB: 3},
		`{"cpus":0.75,"memory_mib":0,"disk_gib":0}`: {Hundredths: 75},
		`{"cpus":-0.5,"memory_mib":0,"disk_gib":0}`: {CPUs: -1, Hundredths: 50},
	} {
		text, err := json.Marshal(c)
		if err != nil || string(text) != want {
			t.Errorf("%+v is written as %s, %v", c, text, err)
		}
		var back writ.Capacity
		if err := json.Unmarshal(text, &back); err != nil || back != c {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
	}
	for _, text := range []string{`{"cpus":0.001}`, `{"cpus":"many"}`, `{"cpus":1e30}`, `[]`} {
		var c writ.Capacity
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s is read as %+v", text, c)
		}
	}
	// Records of earlier versions have whole CPUs only.
	earlier, err := cbor.Marshal(map[string]int64{"cpus": 2, "memory_mib": 512, "disk_gib": math.MaxInt32})
	if err != nil {
		t.Fatal(err)
	}
	whole := writ.Capacity{CPUs: 2, MemoryMiB: 512, DiskGiB: math.MaxInt32}
	var c writ.Capacity
	if err := cbor.Unmarshal(earlier, &c); err != nil || c != whole {
		t.Errorf("an earlier record is read as %+v, %v", c, err)
	}
	if now, err := cbor.Marshal(whole); err != nil || string(now) != string(earlier) {
		t.Errorf("whole CPUs are written as %x, %v", now, err)
	}
}
