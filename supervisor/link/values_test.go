package link

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// branch has values in every place that exact searches, also in a type that contains itself.
type branch struct {
	Value  any
	Plain  int
	Raw    []byte
	Next   *branch
	ByName map[string][]branch
	Lists  [][]any
}

func TestNumbersBecomeInt64Everywhere(t *testing.T) {
	t.Parallel()
	for range 2 { // the second time with the cached types
		var got branch
		err := decode([]byte(`{"value": 1, "plain": 2, "raw": "Aw==", "next": {"value": [4, {"x": 5}]},
			"byName": {"a": [{"next": {"value": 6}}]}, "lists": [[7], ["8", null]]}`), &got, true)
		want := branch{
			Value: int64(1), Plain: 2, Raw: []byte{3}, Next: &branch{Value: []any{int64(4), map[string]any{"x": int64(5)}}},
			ByName: map[string][]branch{"a": {{Next: &branch{Value: int64(6)}}}}, Lists: [][]any{{int64(7)}, {"8", nil}},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if err := decode([]byte(`{"next": {"lists": [[1.5]]}}`), new(branch), true); err == nil {
		t.Error("a fraction is accepted")
	}
}

func TestTypesWithoutValuesAreSkipped(t *testing.T) {
	t.Parallel()
	type plain struct {
		Text string
		Next *plain
		Raw  []byte
	}
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[plain](): false, reflect.TypeFor[[]byte](): false, reflect.TypeFor[map[string]*plain](): false,
		reflect.TypeFor[writ.LogLine](): false, reflect.TypeFor[branch](): true, reflect.TypeFor[writ.Event](): true,
	} {
		if got := mayHoldValues(typ); got != want {
			t.Errorf("mayHoldValues(%s) = %t, want %t", typ, got, want)
		}
	}
}

func BenchmarkDecodeEvents(b *testing.B) {
	call := writ.Call{Seq: 3, Run: "r", Operation: "node.ping", State: writ.CallSucceeded, NodeName: "n1"}
	data := []byte("[")
	for seq := range 10 {
		e := writ.Event{Seq: int64(seq + 1), Call: &call}
		one, err := json.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		if seq > 0 {
			data = append(data, ',')
		}
		data = append(data, one...)
	}
	data = append(data, ']')
	for b.Loop() {
		if _, err := decodeEvents(data, Window); err != nil {
			b.Fatal(err)
		}
	}
}
