package interpreter

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/d5/tengo/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ/internal/cbor"
	"writ/internal/test/testenv"
	"writ/scripts"
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
		e := encoder{fuel: &meter{fuel: scripts.MaxFuel}}
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
		if size := scripts.EncodedSize(withoutNil(v)); size < len(want) || size > 9*len(want)+16 {
			t.Fatalf("sizeOf = %d of %d bytes", size, len(want))
		}
	})
}

func TestAppendChangesNoOtherList(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		fuel := &meter{fuel: scripts.MaxFuel}
		lists := []tengo.Object{&tengo.Array{}}
		models := [][]any{{}}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			from := rapid.IntRange(0, len(lists)-1).Draw(t, "list")
			item := &tengo.Int{Value: int64(n)}
			grown, err := builtinAppend(fuel, []tengo.Object{lists[from], item, item})
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
