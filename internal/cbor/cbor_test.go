package cbor_test

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/cbor"
	"writ/internal/test/testenv"
)

// values generates values up to a depth.
func values(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just(any(nil)),
		rapid.String().AsAny(),
		rapid.Bool().AsAny(),
		rapid.Int64().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves,
		rapid.SliceOfN(values(depth-1), 0, 5).AsAny(),
		rapid.MapOfN(rapid.String(), values(depth-1), 0, 5).AsAny(),
	)...)
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	gen := values(4)
	testenv.CheckProperty(t, func(t *rapid.T) {
		want := gen.Draw(t, "value")
		if err := writ.CheckValue(want); err != nil {
			t.Fatal(err)
		}
		encoded, err := cbor.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := cbor.Unmarshal(encoded, &got); err != nil {
			t.Fatalf("%x: %v", encoded, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// A value of the maximum depth must fit into a job, which adds more levels.
func TestDeepestValueFitsIntoAJob(t *testing.T) {
	var v any = "bottom"
	for range writ.MaxValueDepth - 1 {
		v = []any{v}
	}
	args := map[string]any{"v": v}
	if err := writ.CheckValue(args); err != nil {
		t.Fatal(err)
	}
	encoded, err := cbor.Marshal(writ.Job{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	var got writ.Job
	if err := cbor.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Args, args) { // cmp.Diff takes exponential time in the depth of lists
		t.Errorf("args = %v", got.Args)
	}
}

func TestSignedRecordsComeBackAsTheyWere(t *testing.T) {
	key := writ.JobKey{Run: writ.RunIDOf(writ.Digest{1}), Seq: 3, Attempt: 2}
	values := map[string]any{"count": int64(-1), "disks": []any{map[string]any{"ref": int64(2)}}, "none": nil}
	roundTrip(t, writ.Job{
		JobKey: key, Cluster: "c", Datacenter: "d", Node: "n", Delivery: 4, Epoch: 1 << 52, Operation: "machine.create",
		Project: "p", Name: "web-0", UID: "u", Args: values, Idempotent: true, Payload: writ.DigestOf([]byte("p")), Accepted: 1, StartBy: 2, EndBy: 3,
	})
	roundTrip(t, writ.Result{
		JobKey: key, Job: writ.DigestOf([]byte("j")), Node: "n", Change: writ.ChangeCreated, Values: values,
		Error:  &writ.Error{Code: writ.CodeInjected, Message: "told to fail", Hint: "stop telling it"},
		Driver: "simulated", Simulated: true, Started: 5, Ended: 6, Boot: "b", Incarnation: 7,
	})
	roundTrip(t, writ.Beat{
		Node: "n", Boot: "b", Incarnation: 1, Sequence: 2, Clock: 3, Epoch: 4, Active: []writ.JobKey{key}, Health: writ.Health{Slots: 5,
			Capacity: writ.Capacity{CPUs: 6, MemoryMiB: 7, DiskGiB: 8}, Drivers: []writ.NodeDriver{{Module: "volume", Name: "directory"}},
			Version: "v", Fault: "f"},
	})
	roundTrip(t, writ.Control{Node: "n", Epoch: 1, Acks: []writ.JobKey{key}, Cancels: map[writ.RunID]int64{key.Run: 9}, Roster: 2})
	roundTrip(t, writ.Summary{
		Run: key.Run, Datacenter: "d", Payload: writ.DigestOf([]byte("p")), State: writ.RunFailed, Output: values, Calls: 2, Ended: 8,
		Failure: &writ.Failure{Error: writ.Error{Code: writ.CodeScriptFailed, Message: "m"}, Position: "web.tengo:1:1", Trace: []string{"t"}, Seq: 3},
	})
}

func roundTrip[T any](t *testing.T, want T) {
	t.Helper()
	encoded, err := cbor.Marshal(want)
	if err != nil {
		t.Fatalf("%T: %v", want, err)
	}
	var got T
	if err := cbor.Unmarshal(encoded, &got); err != nil {
		t.Fatalf("%T: %v", want, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%T (-want +got):\n%s", want, diff)
	}
}

// The encoding must not depend on Go's iteration order of maps.
func TestEqualMapsHaveOneEncoding(t *testing.T) {
	want, err := cbor.Marshal(map[string]any{"a": int64(1), "bb": true, "c": nil, "d": "x", "e": []any{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(want); got != "a5616101"+"6163f6"+"61646178"+"616580"+"626262f5" {
		t.Errorf("encoding = %s", got)
	}
	for range 50 {
		if got, err := cbor.Marshal(map[string]any{"e": []any{}, "d": "x", "c": nil, "bb": true, "a": int64(1)}); err != nil || string(got) != string(want) {
			t.Fatalf("encoding = %x, %v, want %x", got, err, want)
		}
	}
}

func TestOtherSpellingsAreRefused(t *testing.T) {
	type record struct {
		Seq  int            `json:"seq"`
		Name string         `json:"name,omitempty"`
		Args map[string]any `json:"args,omitempty"`
	}
	const good = "a163736571" + "01" // {"seq": 1}
	var r record
	if err := cbor.Unmarshal(unhex(t, good), &r); err != nil || r.Seq != 1 {
		t.Fatalf("good = %+v, %v", r, err)
	}
	for _, tt := range []struct{ name, hex string }{
		{"nothing", ""},
		{"cut off", good[:10]},
		{"trailing byte", good + "00"},
		{"longer int than needed", "a163736571" + "1801"},
		{"float where an int belongs", "a163736571" + "f93c00"},
		{"longer length than needed", "b80163736571" + "01"},
		{"map without length", "bf63736571" + "01" + "ff"},
		{"text in pieces", "a263736571" + "01" + "646e616d65" + "7f6161ff"},
		{"text that is not UTF-8", "a263736571" + "01" + "646e616d65" + "61ff"},
		{"keys out of order", "a2646e616d65" + "6161" + "63736571" + "01"},
		{"key twice", "a263736571" + "01" + "63736571" + "01"},
		{"key twice inside", "a26361726773" + "a2616101616102"},
		{"keys out of order inside", "a26461726773" + "a2616201616101" + "63736571" + "01"},
		{"key in another case", "a163534551" + "01"},
		{"unknown key", "a263736571" + "01" + "6161" + "01"},
		{"empty field that would be left out", "a263736571" + "01" + "646e616d65" + "60"},
		{"tag", "c1" + good},
		{"tag inside", "a163736571" + "c101"},
		{"more than an int64 holds", "a263736571" + "01" + "6461726773" + "a161611bffffffffffffffff"},
		{"list for a map", "8101"},
		{"nested too deep", strings.Repeat("81", 60) + "01"},
		{"a list that claims to be huge", "9b00000000ffffffff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r record
			if err := cbor.Unmarshal(unhex(t, tt.hex), &r); err == nil {
				t.Errorf("accepted as %+v", r)
			}
			var v any
			if err := cbor.Unmarshal(unhex(t, tt.hex), &v); err == nil {
				if again, _ := cbor.Marshal(v); hex.EncodeToString(again) != tt.hex {
					t.Errorf("accepted as %v, which is written %x", v, again)
				}
			}
		})
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Accepted bytes are the only encoding of their value.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{"a16373657101", "8301f5f6", "a161618063", "bf616101ff", "c11a514b67b0", "fb3ff0000000000000", "1bffffffffffffffff", "61ff", "9b00000000ffffffff"} {
		b, err := hex.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	job, err := cbor.Marshal(writ.Job{JobKey: writ.JobKey{Run: "r", Seq: 1, Attempt: 1}, Args: map[string]any{"a": []any{int64(1)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(job)
	f.Fuzz(func(t *testing.T, b []byte) {
		check[any](t, b)
		check[writ.Job](t, b)
		check[writ.Result](t, b)
	})
}

func check[T any](t *testing.T, b []byte) {
	var v T
	if cbor.Unmarshal(b, &v) != nil {
		return
	}
	again, err := cbor.Marshal(v)
	if err != nil || string(again) != string(b) {
		t.Errorf("%x was accepted as %#v, which is written %x, %v", b, v, again, err)
	}
}
