package journal_test

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/internal/cbor"
	"writ/supervisor/journal"
)

// fill sets all exported parts of a value to distinct values.
func fill(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.String:
		v.SetString("text " + string(rune('a'+*next%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64((*next + i) % 256))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), next)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.ValueOf("value")
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*writ.Reason]() {
			return // the cause of a reason is a reason
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Interface: // the cause of an error, which is not stored
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMicro(1795000000000000 + int64(*next)).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), next)
			}
		}
	}
}

// aFullCall returns a call with all fields set.
func aFullCall() *journal.Call {
	c := new(journal.Call)
	n := 0
	fill(reflect.ValueOf(c).Elem(), &n)
	c.Reason = "" // coordinators set it
	return c
}

// A field that was added to Call and not to callRecord is detected here.
//
// Promise: Speed and storage: A call is stored compactly without loss.
// How: Numbers for the names of fields; binary times and digests.
func TestEveryFieldOfACallIsKept(t *testing.T) {
	full, elsewhere := aFullCall(), aFullCall()
	elsewhere.Seq++
	elsewhere.Sent.Node = elsewhere.Node // the usual case
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	for _, c := range []*journal.Call{full, elsewhere, {Call: writ.Call{Run: full.Run, Seq: elsewhere.Seq + 1}}} {
		write(t, j, func(tx *journal.Tx) error { return putFirst(tx, c) })
		got := callOf(t, j, c)
		if diff := cmp.Diff(c, got, cmpopts.IgnoreUnexported(journal.Call{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// callOf reads a call again.
func callOf(t *testing.T, j *journal.Journal, like *journal.Call) (call *journal.Call) {
	t.Helper()
	err := j.Read(t.Context(), func(tx *journal.Tx) error {
		calls, err := tx.Calls(like.Run)
		for _, c := range calls {
			if c.Seq == like.Seq {
				call = c
			}
		}
		return err
	})
	if err != nil || call == nil {
		t.Fatalf("call %d is %v: %v", like.Seq, call, err)
	}
	return call
}

func TestStoredSentenceBecomesAReason(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.db"))
	run := aFullCall().Run
	c := &journal.Call{Call: writ.Call{Run: run, Seq: 1}}
	write(t, j, func(tx *journal.Tx) error { return putFirst(tx, c) })
	for _, want := range []writ.Reason{
		{Code: writ.ReasonText, Text: "waits for node n1, which is silent"},
		{Code: writ.ReasonLostNode, Node: "n1"}, {Code: writ.ReasonLostWord, Node: "n1"},
	} {
		numbered := map[int]any{1: run, 2: 1, 3: "node.ping", 7: writ.CallQueued, 9: "n1", 13: 1, 17: want.String(), 22: make([]byte, 32)}
		body, err := cbor.Marshal(numbered)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.ExecForTest(t.Context(), `UPDATE calls SET body = $1 WHERE seq = 1`, body); err != nil {
			t.Fatal(err)
		}
		if got := callOf(t, j, c); !got.Why.Equal(want) || got.Reason != "" {
			t.Errorf("%q is read as %+v, %q", want, got.Why, got.Reason)
		}
	}
}
