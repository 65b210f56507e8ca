package evaluator_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
)

// outcome is an encoded answer, with fields that a hostile child may set.
type outcome = map[string]any

// lies are answers of a hostile child, by name. All of them must be rejected.
var lies = map[string]any{
	"nothing":                       answered(nil, 0),
	"no status":                     said(outcome{}),
	"an unknown status":             said(outcome{"status": "finished"}),
	"an unknown field":              said(outcome{"status": "completed", "more": true}),
	"a list":                        []any{"outcome"},
	"a map":                         map[string]any{"outcome": outcome{"status": "completed"}},
	"a short outcome":               answered([]any{"completed"}, 0),
	"no call":                       said(outcome{"status": "completed", "calls": []any{nil}}),
	"two ends":                      said(outcome{"status": "completed", "waiting": []any{1}}),
	"an output too early":           said(outcome{"status": "waiting", "waiting": []any{1}, "output": outcome{"a": 1}}),
	"waits for nothing":             said(outcome{"status": "waiting"}),
	"waits for an available result": said(outcome{"status": "waiting", "waiting": []any{1}}),
	"waits for a call to be":        said(outcome{"status": "waiting", "waiting": []any{3}}),
	"waits for call 0":              said(outcome{"status": "waiting", "waiting": []any{0}}),
	"waits for a call before":       said(outcome{"status": "waiting", "waiting": []any{-1}}),
	"fails without a reason":        said(outcome{"status": "failed"}),
	"fails with a code":             said(outcome{"status": "failed", "failure": outcome{"code": "MADE_UP", "message": "no"}}),
	"fails at a call to be":         said(outcome{"status": "failed", "failure": outcome{"code": "SCRIPT_FAILED", "message": "no", "seq": 9}}),
	"fails with an escape":          said(outcome{"status": "failed", "failure": outcome{"code": "SCRIPT_FAILED", "message": "\x1b[2J"}}),
	"fails at an escape":            said(outcome{"status": "failed", "failure": outcome{"code": "SCRIPT_FAILED", "message": "no", "position": "a\n:1:1"}}),
	"fails at length": said(outcome{"status": "failed", "failure": outcome{"code": "SCRIPT_FAILED", "message": "no",
		"trace": slices.Repeat([]any{"a:1:1"}, 1000)}}),
	"handles call 0":                   said(outcome{"status": "completed", "handled": []any{0}}),
	"handles a call before":            said(outcome{"status": "completed", "handled": []any{-5}}),
	"handles a call to be":             said(outcome{"status": "completed", "handled": []any{7}}),
	"handles an open call":             said(outcome{"status": "completed", "handled": []any{2}}),
	"handles twice":                    said(outcome{"status": "completed", "handled": []any{1, 1}}),
	"logs an escape":                   said(outcome{"status": "completed", "logs": []any{"\x1b]0;title\a"}}),
	"logs lines in lines":              said(outcome{"status": "completed", "logs": []any{"a\nb"}}),
	"logs long lines":                  said(outcome{"status": "completed", "logs": []any{strings.Repeat("x", 5000)}}),
	"logs for ever":                    said(outcome{"status": "completed", "logs": slices.Repeat([]any{"x"}, 1001)}),
	"a big output":                     said(outcome{"status": "completed", "output": outcome{"a": strings.Repeat("x", 70_000)}}),
	"an output of 15 MiB":              said(outcome{"status": "completed", "output": outcome{"a": strings.Repeat("x", 15<<20)}}),
	"a deep output":                    said(outcome{"status": "completed", "output": nested(40)}),
	"a call that is not next":          asks(outcome{"seq": 4}),
	"a call that was made":             asks(outcome{"seq": 1}),
	"a call before":                    asks(outcome{"seq": -3}),
	"an unknown call":                  asks(outcome{"operation": "node.explode"}),
	"a call that is forbidden":         asks(outcome{"operation": "volume.delete"}),
	"a call without a name":            asks(outcome{"name": ""}),
	"a call with a bad name":           asks(outcome{"name": "../etc"}),
	"a call nowhere":                   asks(outcome{"position": "\x1b[1m"}),
	"a call after a read at an escape": asks(outcome{"read": "\x1b[1m"}),
	"a call that waits for later ones": asks(outcome{"after": []any{3}}),
	"a call that waits before":         asks(outcome{"after": []any{0}}),
	"a call with more":                 asks(outcome{"args": outcome{"size_gib": 1, "root": true}}),
	"a call with less":                 asks(outcome{"args": outcome{}}),
	"a call with a big argument":       asks(outcome{"args": outcome{"size_gib": 1, "image": strings.Repeat("x", 1<<20)}}),
	"a call that uses later ones":      asks(outcome{"args": outcome{"size_gib": 1, "image": outcome{"ref": 9}}}),
	"a call that does not wait":        asks(outcome{"args": outcome{"size_gib": 1, "image": outcome{"ref": 1}}}),
	"a call with a handle":             asks(outcome{"args": outcome{"size_gib": outcome{"ref": 1}}}),
	"a call with many attempts":        asks(outcome{"options": outcome{"retries": 1_000_000}}),
	"a call with a timeout":            asks(outcome{"options": outcome{"timeout": int64(1) << 60}}),
	"a call in the past":               asks(outcome{"options": outcome{"timeout": -5}}),
	"a call with a loss":               asks(outcome{"options": outcome{"on_loss": "explode"}}),
	"a million calls":                  said(outcome{"status": "completed", "calls": slices.Repeat([]any{listed(outcome{}, "seq", "hash", "operation", "name", "args", "options", "after", "position", "read")}, 1_000_000)}),
	"too many calls":                   said(outcome{"status": "completed", "calls": calls(99)}),
}

func said(o outcome) any {
	return answered(listed(o, "status", "calls", "logs", "waiting", "handled", "output", "failure"), 0)
}

// answered returns an answer in its wire format.
func answered(o any, took time.Duration) any { return []any{o, nil, took, 0, false, false} }

// listed returns fields in the order of the wire format, followed by unknown ones.
func listed(fields outcome, names ...string) []any {
	rest, list := maps.Clone(fields), []any{}
	for _, name := range names {
		list = append(list, fields[name])
		delete(rest, name)
	}
	return slices.AppendSeq(list, maps.Values(rest))
}

// calls returns n valid calls.
func calls(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = callWith(i+3, nil)
	}
	return all
}

// callWith returns a valid call with some fields replaced.
func callWith(seq int, other outcome) []any {
	fields := outcome{"seq": seq, "hash": writ.Digest{}, "operation": "volume.create", "name": "v", "args": outcome{"size_gib": 1},
		"options": outcome{}, "position": "test.tengo:1:1", "read": ""}
	maps.Copy(fields, other)
	return listed(fields, "seq", "hash", "operation", "name", "args", "options", "after", "position", "read")
}

// asks returns an outcome with a modified call.
func asks(other outcome) any {
	return said(outcome{"status": "completed", "calls": []any{callWith(3, other)}})
}

func nested(depth int) any {
	if depth == 0 {
		return 1
	}
	return outcome{"a": nested(depth - 1)}
}

// noise are bytes that are not valid frames.
var noise = map[string][]byte{
	"an endless frame": {0xff, 0xff, 0xff, 0xff},
	"an empty frame":   {0, 0, 0, 0},
	"no CBOR":          {0, 0, 0, 2, 0xff, 0xff},
	"a list of 2^32":   {0, 0, 0, 5, 0x9a, 0xff, 0xff, 0xff, 0xff},
	"a tag":            {0, 0, 0, 2, 0xc1, 0x00},
}

// lie is a child that answers as a script orders: "say …". For other scripts it answers that they completed, and logs
// the number of passes in the request. Each script is one comment.
func lie() int {
	tell := func(v any) {
		body, err := cbor.Marshal(v)
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	}
	tell(map[string]any{"layers": []any{}})
	texts := make(map[string][]byte) // of scripts, by program
	for {
		var head [4]byte
		if _, err := io.ReadFull(os.Stdin, head[:]); err != nil {
			return 0
		}
		request := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(os.Stdin, request); err != nil {
			return 1
		}
		var list []struct {
			_       struct{} `cbor:",toarray"`
			Program string
			Bundle  *scripts.Bundle
			Run     any
			Inputs  any
			Logged  int
			Journal any
			Plan    bool
			Compile bool
			Yields  bool
		}
		if err := cbor.Decode(request, &list); err != nil {
			return 1
		}
		for _, one := range list {
			if one.Bundle != nil { // otherwise it has the text
				texts[one.Program] = one.Bundle.Main.Text
			}
			what, found := bytes.CutPrefix(texts[one.Program], []byte("// say "))
			name, _, _ := strings.Cut(string(what), ".")
			switch {
			case !found:
				tell(said(outcome{"status": "completed", "logs": []any{fmt.Sprint(len(list))}}))
			case name == "what is possible":
				tell(said(outcome{"status": "completed", "calls": calls(98), "handled": []any{1}, "logs": []any{"a\tb"}, "output": nested(20)}))
			case name == "it takes some time":
				some := said(outcome{"status": "completed", "logs": []any{fmt.Sprint(len(list))}}).([]any)
				tell(answered(some[0], 4*time.Millisecond))
			case name == "it takes long":
				long := said(outcome{"status": "completed", "logs": []any{fmt.Sprint(len(list))}}).([]any)
				tell(answered(long[0], time.Second))
			case name == "it stopped":
				tell([]any{nil, nil, 0, 0, true, false})
			case name == "nothing while others wait" && len(list) > 1:
				_, _ = io.Copy(io.Discard, os.Stdin)
				return 0
			case name == "nothing while others wait":
				tell(said(outcome{"status": "completed"}))
			case name == "one byte at a time":
				_, _ = os.Stdout.Write([]byte{0, 0xff, 0, 0})
				for {
					time.Sleep(time.Millisecond)
					if _, err := os.Stdout.Write([]byte{0xa0}); err != nil {
						return 1
					}
				}
			case name == "the next answer too":
				tell(said(outcome{"status": "completed"}))
				tell(lies["a call that is forbidden"])
			case noise[name] != nil:
				_, _ = os.Stdout.Write(noise[name])
			default:
				tell(lies[name])
			}
		}
	}
}

// TestAnswersOfAChildAreVerified has a hostile child answer with everything that no script can cause. The pass then
// does not take place, the child is ended, and the next run gets another one.
//
// Promise: Evaluation and resumes: A compromised child can request only the calls that its script's signed header
// allows.
// How: The supervisor checks every outcome against inputs and journal and ends a child that lies or stalls.
// Also: TestSlowlyWritingChildTimesOut.
func TestAnswersOfAChildAreVerified(t *testing.T) {
	pool := newPoolOf(t, "liar")
	journal := []scripts.Entry{{Seq: 1, State: scripts.EntryFailed, Error: writ.Errorf(writ.CodeInjected, "no")}, {Seq: 2, State: scripts.EntryOpen}}
	names := slices.Concat(slices.Sorted(maps.Keys(lies)), slices.Sorted(maps.Keys(noise)))
	for _, name := range names {
		o, err := pool.Pass(t.Context(), bundle("// say "+name+"."), everything, journal)
		if writ.CodeOf(err) != writ.CodeEvaluatorCrashed {
			t.Errorf("%s: %+.200v, %v", name, o, err)
		}
		if len(pool.Idle()) != 0 {
			t.Errorf("%s: the child lives on", name)
			_ = pool.Close()
		}
	}
	for _, text := range []string{"// honest", "// say what is possible."} {
		if o, err := pool.Pass(t.Context(), bundle(text), everything, journal); err != nil || o.Status != scripts.Completed {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
}

func TestSlowlyWritingChildTimesOut(t *testing.T) {
	pool := newPoolOf(t, "liar")
	pool.SetPatience(300 * time.Millisecond)
	if _, err := pool.Pass(t.Context(), bundle("// say one byte at a time."), everything, nil); writ.CodeOf(err) != writ.CodeEvaluatorCrashed {
		t.Errorf("Pass = %v", err)
	}
}

// TestPrematureAnswerIsRejected starts a hostile child that sends the answer for the next run in advance.
func TestPrematureAnswerIsRejected(t *testing.T) {
	pool := newPoolOf(t, "liar")
	switch o, err := pool.Pass(t.Context(), bundle("// say the next answer too."), everything, nil); {
	case writ.CodeOf(err) == writ.CodeEvaluatorCrashed:
		return // both came at once, which reveals it
	case err != nil || o.Status != scripts.Completed:
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := pool.Pass(t.Context(), bundle("// honest"), everything, nil); writ.CodeOf(err) != writ.CodeEvaluatorCrashed {
		t.Errorf("the next run: %+v, %v", o, err)
	}
}
