package envelope

import (
	"bytes"
	"testing"

	"writ"
)

// unnamed signs records without the name of the kind.
func unnamed(t testing.TB, kind Kind, records ...any) []byte {
	t.Helper()
	frame := mustMarshal(t, records)
	id := idBytes(testKey("node"))
	return mustEncode(t, envelope{Key: id[:], Frame: frame, Signature: makeSignature(testKey("node"), signedBytes(kind, false, frame))})
}

func mustEncode(t testing.TB, e envelope) []byte {
	t.Helper()
	b, err := encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKindOfReadsTheNamedKind(t *testing.T) {
	for kind, want := range map[Kind]Kind{Result: Result, Beat: Beat, Report: Report, Host: Host, Log: Log, Summary: "", Control: ""} {
		signed, err := Sign(kind, testKey("node"), "record")
		if err != nil {
			t.Fatal(err)
		}
		if got := KindOf(signed); got != want {
			t.Errorf("an envelope of the kind %q names %q, want %q", kind, got, want)
		}
		for end := range signed {
			_ = KindOf(signed[:end]) // must not panic
		}
	}
	for _, broken := range []string{"", "\x85", "\x85\x64bea", "\x85\x78\x04beat", "\x85\x44beat", "\x84\x64beat", "text"} {
		if got := KindOf([]byte(broken)); got != "" {
			t.Errorf("%q names %q", broken, got)
		}
	}
}

// A wrong kind does not help an attacker without the key: each change of the name makes the envelope invalid.
func TestChangedKindIsRejected(t *testing.T) {
	keys := Only(public("node"))
	signed, err := Sign(Result, testKey("node"), results(2)...)
	if err != nil {
		t.Fatal(err)
	}
	rename := func(signed []byte, kind Kind) []byte {
		e, err := decode(signed)
		if err != nil {
			t.Fatal(err)
		}
		e.kind = kind
		return mustEncode(t, e)
	}
	each := mustSignEach(t, results(2)...)[0]
	old := unnamed(t, Result, results(2)...)
	empty := bytes.Replace(rename(old, "x"), []byte("\x85\x61x"), []byte("\x85\x60"), 1)
	for name, tt := range map[string]struct {
		signed []byte
		kind   Kind // the kind that the reader expects
		want   writ.Code
	}{
		"another name":               {rename(signed, Beat), Beat, writ.CodeSignatureInvalid},
		"another name, right reader": {rename(signed, Beat), Result, writ.CodeSignatureInvalid},
		"another reader":             {signed, Beat, writ.CodeSignatureInvalid},
		"unknown name":               {rename(signed, "other"), "other", writ.CodeSignatureInvalid},
		"name of a kind without":     {rename(signed, Summary), Summary, writ.CodeSignatureInvalid},
		"removed name":               {rename(signed, ""), Result, writ.CodeSignatureInvalid},
		"added name":                 {rename(old, Result), Result, writ.CodeSignatureInvalid},
		"added empty name":           {empty, Result, writ.CodeSignatureMalformed},
		"unnamed, another reader":    {old, Beat, writ.CodeSignatureInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Open[writ.Result](tt.kind, tt.signed, keys)
			wantCode(t, err, tt.want)
		})
	}
	for name, changed := range map[string][]byte{"another name": rename(each, Beat), "removed name": rename(each, "")} {
		_, _, err := OpenWith[writ.Result](&Opener{Keys: keys}, Result, changed)
		if writ.CodeOf(err) != writ.CodeSignatureInvalid {
			t.Errorf("one record, %s: %v", name, err)
		}
	}
}
