package envelope

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/cbor"
	"writ/internal/test/testenv"
)

func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) ed25519.PublicKey { return testKey(name).Public().(ed25519.PublicKey) }

func result(seq int) writ.Result {
	return writ.Result{
		JobKey: writ.JobKey{Run: writ.RunIDOf(writ.Digest{1}), Seq: seq, Attempt: 1}, Job: writ.Digest{byte(seq)}, Node: "n1", Change: writ.ChangeCreated,
		Values: map[string]any{"address": "10.0.0.1", "size": int64(-3), "tags": []any{"a", true, nil}},
	}
}

func results(n int) []any {
	records := make([]any, n)
	for i := range records {
		records[i] = result(i + 1)
	}
	return records
}

func wantCode(t testing.TB, err error, want writ.Code) {
	t.Helper()
	if got := writ.CodeOf(err); got != want {
		t.Errorf("error %v with code %q, want code %q", err, got, want)
	}
}

func TestSignedRecordsComeBack(t *testing.T) {
	for _, n := range []int{1, 2, MaxRecords} {
		signed, err := Sign(Result, testKey("node"), results(n)...)
		if err != nil {
			t.Fatal(err)
		}
		have, by, err := Open[writ.Result](Result, signed, Only(public("other"), public("node")))
		if err != nil {
			t.Fatal(err)
		}
		if by != IDOf(public("node")) || len(have) != n {
			t.Errorf("%d records by %s", len(have), by)
		}
		for i, r := range have {
			if diff := cmp.Diff(result(i+1), r); diff != "" {
				t.Error(diff)
			}
		}
	}
	for _, n := range []int{0, MaxRecords + 1} {
		if _, err := Sign(Result, testKey("node"), results(n)...); err == nil {
			t.Errorf("signed %d records", n)
		}
		if _, _, err := SignEach(Result, testKey("node"), results(n)...); err == nil {
			t.Errorf("signed %d records", n)
		}
	}
	_, err := Sign(Result, testKey("node"), make([]byte, MaxSize))
	wantCode(t, err, writ.CodeTooLarge)
	if _, err := Sign(Result, testKey("node"), make(chan int)); err == nil {
		t.Error("signed a channel")
	}
	if _, _, err := SignEach(Result, testKey("node"), make(chan int)); err == nil {
		t.Error("signed a channel")
	}
}

func TestRecordsCanBeSentSeparately(t *testing.T) {
	signed, digests, err := SignEach(Job, testKey("supervisor"), results(MaxRecords)...)
	if err != nil {
		t.Fatal(err)
	}
	o := &Opener{Keys: Only(public("supervisor"))}
	for i, s := range signed {
		text, _ := cbor.Marshal(result(i + 1))
		if digests[i] != writ.DigestOf(text) {
			t.Errorf("digest %d does not match the bytes of the record", i)
		}
		have, digest, err := OpenWith[writ.Result](o, Job, s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(result(i+1), have); diff != "" || digest != digests[i] {
			t.Errorf("digest %s, record %s", digest, diff)
		}
		if _, again, err := OpenWith[writ.Result](&Opener{Keys: o.Keys}, Job, s); err != nil || again != digest {
			t.Errorf("OpenWith: %s, %v", again, err)
		}
	}
	if len(o.order) != 1 {
		t.Fatalf("%d signatures were verified, want 1", len(o.order))
	}
	o.verified[o.order[0]] = nil // the Opener accepts this only if it does not verify the signature again
	_, _, err = OpenWith[writ.Result](o, Job, signed[0])
	wantCode(t, err, writ.CodeSignatureInvalid)
}

func TestOpenRefuses(t *testing.T) {
	node := Only(public("node"))
	signed, _ := Sign(Result, testKey("node"), results(2)...)
	each, _, _ := SignEach(Result, testKey("node"), results(2)...)
	spoil := func(signed []byte, change func(e *envelope)) []byte {
		e, err := decode(signed)
		if err != nil {
			t.Fatal(err)
		}
		change(&e)
		b, err := encode(e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	resign := func(signed []byte, frame any) []byte {
		return spoil(signed, func(e *envelope) {
			e.Frame, _ = cbor.Marshal(frame)
			e.Signature = sign(Result, testKey("node"), e.Frame).Signature
		})
	}
	indefinite := append(append([]byte{0x9f}, mustMarshal(t, result(1))...), 0xff)
	many := make([]any, MaxRecords+1)
	long := list{Digests: slices.Repeat([][]byte{make([]byte, sha256.Size)}, MaxRecords+1)}
	for name, tt := range map[string]struct {
		kind   Kind
		signed []byte
		keys   Keys
		want   writ.Code
	}{
		"nothing":         {Result, nil, node, writ.CodeSignatureMalformed},
		"too big":         {Result, make([]byte, MaxSize+1), node, writ.CodeTooLarge},
		"trailing byte":   {Result, append(bytes.Clone(signed), 0), node, writ.CodeSignatureMalformed},
		"other kind":      {Beat, signed, node, writ.CodeSignatureInvalid},
		"unknown key":     {Result, signed, Only(public("other")), writ.CodeSignerUnknown},
		"key for another": {Result, signed, func(KeyID) (ed25519.PublicKey, error) { return public("other"), nil }, writ.CodeSignatureInvalid},
		"another's name": {Result, spoil(signed, func(e *envelope) { id := idBytes(testKey("other")); e.Key = id[:] }),
			func(KeyID) (ed25519.PublicKey, error) { return public("node"), nil }, writ.CodeSignatureInvalid},
		"no key, no error": {Result, spoil(signed, func(e *envelope) { none := sha256.Sum256(nil); e.Key = none[:] }),
			func(KeyID) (ed25519.PublicKey, error) { return nil, nil }, writ.CodeSignatureInvalid},
		"short key id":     {Result, spoil(signed, func(e *envelope) { e.Key = e.Key[1:] }), node, writ.CodeSignatureMalformed},
		"short signature":  {Result, spoil(signed, func(e *envelope) { e.Signature = e.Signature[1:] }), node, writ.CodeSignatureMalformed},
		"other frame":      {Result, spoil(signed, func(e *envelope) { e.Frame, _ = cbor.Marshal(results(1)) }), node, writ.CodeSignatureInvalid},
		"record beside":    {Result, spoil(signed, func(e *envelope) { e.Record = []byte{0xf6} }), node, writ.CodeSignatureMalformed},
		"one of many":      {Result, each[0], node, writ.CodeSignatureMalformed},
		"list as frame":    {Result, spoil(each[0], func(e *envelope) { e.Record = nil }), node, writ.CodeSignatureMalformed},
		"other records":    {Result, resign(signed, []any{"text"}), node, writ.CodeSignatureMalformed},
		"no records":       {Result, resign(signed, []any{}), node, writ.CodeSignatureMalformed},
		"no list":          {Result, resign(signed, nil), node, writ.CodeSignatureMalformed},
		"too many records": {Result, resign(signed, many), node, writ.CodeSignatureMalformed},
		"unknown field":    {Result, resign(signed, []any{map[string]any{"more": true}}), node, writ.CodeSignatureMalformed},
		"other encoding": {Result, spoil(signed, func(e *envelope) {
			e.Frame, e.Signature = indefinite, sign(Result, testKey("node"), indefinite).Signature
		}), node, writ.CodeSignatureMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Open[writ.Result](tt.kind, tt.signed, tt.keys)
			wantCode(t, err, tt.want)
		})
	}
	for name, tt := range map[string]struct {
		signed []byte
		keys   Keys
		want   writ.Code
	}{
		"a frame":        {signed, node, writ.CodeSignatureMalformed},
		"another record": {spoil(each[0], func(e *envelope) { e.Record, _ = cbor.Marshal(result(9)) }), node, writ.CodeSignatureInvalid},
		"changed list": {spoil(each[0], func(e *envelope) {
			d := writ.DigestOf(e.Record)
			e.Frame, _ = cbor.Marshal(list{Digests: [][]byte{d[:]}})
		}), node, writ.CodeSignatureInvalid},
		"no record":         {spoil(each[0], func(e *envelope) { e.Record = nil }), node, writ.CodeSignatureInvalid},
		"unknown key":       {each[0], Only(), writ.CodeSignerUnknown},
		"short digest":      {resign(each[0], list{Digests: [][]byte{{1}}}), node, writ.CodeSignatureMalformed},
		"too long a list":   {resign(each[0], long), node, writ.CodeSignatureMalformed},
		"record of no form": {mustSignEach(t, "text")[0], node, writ.CodeSignatureMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := OpenWith[writ.Result](&Opener{Keys: tt.keys}, Result, tt.signed)
			wantCode(t, err, tt.want)
		})
	}
}

func TestOpenerAsksForTheKeyEveryTime(t *testing.T) {
	signed := mustSignEach(t, result(1))[0]
	known := true
	o := &Opener{Keys: func(id KeyID) (ed25519.PublicKey, error) {
		if !known {
			return nil, writ.Errorf(writ.CodeSignerRevoked, "revoked")
		}
		return Only(public("node"))(id)
	}}
	if _, _, err := OpenWith[writ.Result](o, Result, signed); err != nil {
		t.Fatal(err)
	}
	known = false
	_, _, err := OpenWith[writ.Result](o, Result, signed)
	wantCode(t, err, writ.CodeSignerRevoked)
}

func TestOpenerRemembersAKindApart(t *testing.T) {
	signed := mustSignEach(t, result(1))[0]
	o := &Opener{Keys: Only(public("node"))}
	if _, _, err := OpenWith[writ.Result](o, Result, signed); err != nil {
		t.Fatal(err)
	}
	_, _, err := OpenWith[writ.Result](o, Job, signed)
	wantCode(t, err, writ.CodeSignatureInvalid)
}

func TestOpenerForgetsTheOldest(t *testing.T) {
	o := &Opener{Keys: Only(public("node"))}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range maxCachedLists/4 + 3 {
				signed, _, err := SignEach(Result, testKey("node"), fmt.Sprint(worker, " ", i))
				if err != nil {
					t.Error(err)
					return
				}
				if _, _, err := OpenWith[string](o, Result, signed[0]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(o.verified) != maxCachedLists || len(o.order) != maxCachedLists {
		t.Errorf("%d and %d lists are cached, want %d", len(o.verified), len(o.order), maxCachedLists)
	}
	for _, sum := range o.order {
		if _, ok := o.verified[sum]; !ok {
			t.Fatal("the ring and the set differ")
		}
	}
}

// Promise: Submissions: Verification fails if any byte of a job or result is changed in transit.
// How: An ed25519 signature covers kind and frame.
func TestNoByteOfAnEnvelopeCanBeChanged(t *testing.T) {
	frame, _ := Sign(Result, testKey("node"), results(2)...)
	alone := mustSignEach(t, results(2)...)[1]
	o := &Opener{Keys: Only(public("node"))}
	if _, _, err := OpenWith[writ.Result](o, Result, alone); err != nil { // the cache must not help
		t.Fatal(err)
	}
	open := func(which int, signed []byte) (err error) {
		if which == 0 {
			_, _, err = Open[writ.Result](Result, signed, o.Keys)
		} else {
			_, _, err = OpenWith[writ.Result](o, Result, signed)
		}
		return err
	}
	for which, signed := range [][]byte{frame, alone} {
		for i := range signed {
			bad := bytes.Clone(signed)
			bad[i] ^= 1
			if open(which, bad) == nil {
				t.Fatalf("sign %d: byte %d changed, and accepted", which, i)
			}
		}
		testenv.CheckProperty(t, func(t *rapid.T) {
			i := rapid.IntRange(0, len(signed)-1).Draw(t, "at")
			n := rapid.IntRange(0, min(3, len(signed)-i)).Draw(t, "instead of")
			with := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "put")
			bad := append(append(bytes.Clone(signed[:i]), with...), signed[i+n:]...)
			if !bytes.Equal(bad, signed) && open(which, bad) == nil {
				t.Fatalf("accepted %x", bad)
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	frame, _ := Sign(Result, testKey("node"), results(2)...)
	f.Add(frame)
	f.Add(mustSignEach(f, results(2)...)[0])
	keys := func(KeyID) (ed25519.PublicKey, error) { return public("node"), nil }
	f.Fuzz(func(t *testing.T, signed []byte) {
		if records, _, err := Open[writ.Result](Result, signed, keys); err == nil {
			again := make([]any, len(records))
			for i, r := range records {
				again[i] = r
			}
			if want, err := Sign(Result, testKey("node"), again...); err != nil || !bytes.Equal(want, signed) {
				t.Fatalf("opened %x, would sign %x, error %v", signed, want, err)
			}
		}
		_, _, _ = OpenWith[writ.Result](&Opener{Keys: keys}, Result, signed)
	})
}

func mustSignEach(t testing.TB, records ...any) [][]byte {
	t.Helper()
	signed, _, err := SignEach(Result, testKey("node"), records...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The benchmarks count one operation per record, so that groups of different sizes are comparable.

func BenchmarkSign(b *testing.B) {
	for _, n := range []int{1, 8, MaxRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			records, key := results(n), testKey("node")
			for i := 0; i < b.N; i += n {
				if _, err := Sign(Result, key, records...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSignEach(b *testing.B) {
	for _, n := range []int{1, 8, MaxRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			records, key := results(n), testKey("node")
			for i := 0; i < b.N; i += n {
				if _, _, err := SignEach(Job, key, records...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1, 8, MaxRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			signed, _ := Sign(Result, testKey("node"), results(n)...)
			keys := Only(public("node"))
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				if _, _, err := Open[writ.Result](Result, signed, keys); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpenWith(b *testing.B) {
	for _, n := range []int{1, 8, MaxRecords} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			signed := mustSignEach(b, results(n)...)
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				o := &Opener{Keys: Only(public("node"))} // no cached signatures
				for _, s := range signed {
					if _, _, err := OpenWith[writ.Result](o, Result, s); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
