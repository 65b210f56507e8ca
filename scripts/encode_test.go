package scripts

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/d5/tengo/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ/internal/cbor"
	"writ/internal/testenv"
)

// value draws a random value of the system.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.StringN(0, -1, 300).Draw(t, "string")
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64, -1, -24, -25})).Draw(t, "int")
		case 3:
			return nil
		case 4:
			return rapid.SliceOfN(value(depth-1), 0, 30).Draw(t, "list")
		default:
			return anyMap(depth).Draw(t, "map")
		}
	})
}

func anyMap(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.StringN(0, -1, 300), value(depth-1), 0, 30)
}

// withoutNil returns v without keys that stand for undefined, which are not encoded.
func withoutNil(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = withoutNil(v[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, e := range v {
			if e != nil {
				m[key] = withoutNil(e)
			}
		}
		return m
	default:
		return v
	}
}

func TestArgumentEncodingEqualsPackageCBOR(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		o, err := objectOf(v)
		if err != nil {
			t.Fatal(err)
		}
		e := encoder{pass: &pass{fuel: MaxFuel}}
		if err := e.object(o, 0); err == errArguments {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		want, err := cbor.Marshal(withoutNil(v))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(e.buf, want) {
			t.Fatalf("%v is encoded as\n%x, want\n%x", v, e.buf, want)
		}
		if diff := cmp.Diff(withoutNil(v), valueOf(o)); diff != "" {
			t.Fatalf("there and back (-want +got):\n%s", diff)
		}
		if size := sizeOf(withoutNil(v)); size < len(want) || size > 9*len(want)+16 {
			t.Fatalf("sizeOf = %d of %d bytes", size, len(want))
		}
	})
}

func TestAppendChangesNoOtherList(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		p := &pass{fuel: MaxFuel}
		lists := []tengo.Object{&tengo.Array{}}
		models := [][]any{{}}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			from := rapid.IntRange(0, len(lists)-1).Draw(t, "list")
			item := &tengo.Int{Value: int64(n)}
			grown, err := builtinAppend(p, []tengo.Object{lists[from], item, item})
			if err != nil {
				t.Fatal(err)
			}
			lists = append(lists, grown)
			models = append(models, slices.Concat(models[from], []any{int64(n), int64(n)}))
			for i := range lists {
				if diff := cmp.Diff(models[i], valueOf(lists[i])); diff != "" {
					t.Fatalf("list %d after step %d (-want +got):\n%s", i, n, diff)
				}
			}
		}
	})
}

func TestParamsFillAndParse(t *testing.T) {
	r := Check(Bundle{Main: Source{Name: "p.tengo", Text: []byte(`params := {
	count: {type: "int", default: 2, min: 1, max: 50, help: "how many"},
	name: {type: "string", pattern: "[a-z]+", max: 5},
	fast: {type: "bool", default: false},
	zones: {type: "list", of: "string", default: ["a"], enum: ["a", "b", "c,d"], max: 2},
	ports: {type: "list", of: "int", default: []}
}`)}})
	if !r.OK() || len(r.Params) != 5 {
		t.Fatal(r)
	}
	got, err := r.Params.Fill(map[string]any{"name": "abc", "count": int64(3)})
	want := map[string]any{"count": int64(3), "name": "abc", "fast": false, "zones": []any{"a"}, "ports": []any{}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct {
		given map[string]any
		want  string
	}{
		{nil, `parameter "name" is missing`},
		{map[string]any{"name": "abc", "cuont": int64(1)}, `the script has no parameter "cuont"`},
		{map[string]any{"name": "ABC"}, `parameter "name" must match [a-z]+, not "ABC"`},
		{map[string]any{"name": "abcabc"}, `parameter "name" must have at most 5 bytes, not 6`},
		{map[string]any{"name": "abc", "count": int64(51)}, `parameter "count" must be 1 to 50, not 51`},
		{map[string]any{"name": "abc", "count": "3"}, `parameter "count" must be an int, not the text "3"`},
		{map[string]any{"name": "abc", "fast": int64(1)}, `parameter "fast" must be a bool, not 1`},
		{map[string]any{"name": "abc", "zones": []any{"z"}}, `parameter "zones" has an invalid element 0: it must be one of a, b, c,d, not the text "z"`},
		{map[string]any{"name": "abc", "zones": []any{"a", "a", "b"}}, `parameter "zones" must have at most 2 elements, not 3`},
		{map[string]any{"name": "abc", "ports": []any{int64(1) << 60}}, `parameter "ports" has an invalid element 0: it must be within ±2^53`},
	} {
		if _, err := r.Params.Fill(tt.given); err == nil || err.Error() != tt.want {
			t.Errorf("Fill(%v) = %v, want %s", tt.given, err, tt.want)
		}
	}
	for text, want := range map[string]any{
		"count=7": int64(7), "name=abc": "abc", "fast=true": true, "zones=a,b": []any{"a", "b"}, `zones=["c,d"]`: []any{"c,d"},
		"ports=": []any{}, "ports=80,443": []any{int64(80), int64(443)}, "ports=[80]": []any{int64(80)},
	} {
		name, v, err := r.Params.ParseParam(text)
		if diff := cmp.Diff(want, v); err != nil || diff != "" || !strings.HasPrefix(text, name+"=") {
			t.Errorf("ParseParam(%s) = %s %v %v", text, name, v, err)
		}
	}
	for _, text := range []string{"count", "count=x", "count=1.5", "fast=yes", "nothing=1", "zones=[1]", "zones=[\"a\"", "ports=a", "ports=[1.5]", "ports=[1] 2", "name=", "count=99"} {
		if name, v, err := r.Params.ParseParam(text); err == nil {
			t.Errorf("ParseParam(%s) = %s %v", text, name, v)
		}
	}
	if _, _, err := r.Params.ParseParam("zones=[a b]"); err == nil || !strings.Contains(err.Error(), `write a,b or ["a", "b"]`) {
		t.Errorf("a list in the form of a log: %v", err)
	}
}
