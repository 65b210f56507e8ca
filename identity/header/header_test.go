package header

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ/internal/test/testenv"
)

func TestDurationsUseTheirLargestWholeUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Hour: "1h", 24 * time.Hour: "24h", 90 * time.Minute: "90m", time.Minute: "1m", 61 * time.Second: "61s",
	} {
		if have := FormatDuration(d); have != want {
			t.Errorf("%s is written %s, want %s", d, have, want)
		}
	}
}

// Other programs also write these texts. The form is RFC 8785, with U+007F to U+009F escaped as well.
func TestParamsHaveOneForm(t *testing.T) {
	have, err := canonicalJSON(map[string]any{
		"s": "\b\t\n\f\r\x00\x1f\x7f\u0085\"\\/<é\u2028", "b": true, "n": int64(-maxInt),
		"l": []any{int64(1), "x", false}, "A": "",
	})
	want := `{"A":"","b":true,"l":[1,"x",false],"n":-9007199254740992,` +
		`"s":"\b\t\n\f\r\u0000\u001f\u007f\u0085\"\\/<é` + "\u2028" + `"}`
	if err != nil || string(have) != want {
		t.Errorf("%s, %v", have, err)
	}
	for _, bad := range []any{
		int64(maxInt + 1), int64(-maxInt - 1), []any{[]any{}}, nil, map[string]any{}, 1.5, []any{nil},
	} {
		if text, err := canonicalJSON(map[string]any{"a": bad}); err == nil {
			t.Errorf("wrote %s", text)
		}
	}
}

func TestParamsSurviveTheirText(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Map(
			rapid.String().Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s }),
			func(s string) any { return s },
		),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64Range(-maxInt, maxInt), func(n int64) any { return n }),
	)
	list := rapid.Map(rapid.SliceOfN(scalar, 1, 4), func(l []any) any { return l })
	params := rapid.MapOfN(rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_-]{0,5}`), rapid.OneOf(scalar, list), 1, 5)
	testenv.CheckProperty(t, func(t *rapid.T) {
		want := params.Draw(t, "params")
		text, err := canonicalJSON(want)
		if err != nil {
			t.Fatal(err)
		}
		have, err := parseParams(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatal(diff)
		}
		if bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Fatalf("control characters in %q", text)
		}
	})
}
