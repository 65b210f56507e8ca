package sal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal/catalog"
)

var root = writ.ResourceID{Project: "0192f6c2-0000-7000-8000-000000000001", Kind: writ.KindVolume, Name: "root"}

func request(t *testing.T, operation string, uid writ.UID, args map[string]any) Request {
	t.Helper()
	o, ok := catalog.Lookup(operation)
	if !ok {
		t.Fatalf("unknown operation %s", operation)
	}
	decoded, err := o.Decode(args)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Operation: o, Resource: root, UID: uid, Args: decoded, Key: "k", Progress: func(string) {}}
}

type own struct{ Path string }

func TestDecideComparesWithTheLastSpec(t *testing.T) {
	was := NewRecord[own](request(t, "volume.create", "u1", map[string]any{"size_gib": int64(10), "image": "debian-12"}))
	for _, tt := range []struct {
		name   string
		record *Record[own]
		asked  Request
		change writ.Change
		fields []string
		code   writ.Code
	}{
		{"nothing there", nil, request(t, "volume.create", "u1", map[string]any{"size_gib": int64(10)}), writ.ChangeCreated, nil, ""},
		{"the same", was, request(t, "volume.create", "u1", map[string]any{"size_gib": int64(10), "image": "debian-12"}), writ.ChangeUnchanged, nil, ""},
		{"bigger", was, request(t, "volume.create", "u1", map[string]any{"size_gib": int64(20), "image": "debian-12"}), writ.ChangeUpdated, []string{"size_gib"}, ""},
		{"other image", was, request(t, "volume.create", "u1", map[string]any{"size_gib": int64(20), "image": "debian-13"}), "", nil, writ.CodeImmutableField},
		{"other uid", was, request(t, "volume.create", "u2", map[string]any{"size_gib": int64(10), "image": "debian-12"}), "", nil, writ.CodeResourceConflict},
		{"other way to make it", was, request(t, "volume.receive", "u1", map[string]any{"size_gib": int64(10), "backup": "b"}), "", nil, writ.CodeResourceConflict},
	} {
		change, fields, err := tt.record.Decide(tt.asked)
		if change != tt.change || !cmp.Equal(fields, tt.fields) || writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %q %v %v; want %q %v %q", tt.name, change, fields, err, tt.change, tt.fields, tt.code)
		}
	}
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	records := &Records[own]{Dir: filepath.Join(t.TempDir(), "records")}
	if all, damaged, err := records.List(); all != nil || damaged != nil || err != nil {
		t.Fatalf("an empty directory lists %v, %v, %v", all, damaged, err)
	}
	want := NewRecord[own](request(t, "volume.clone", "u1", map[string]any{
		"from": writ.Ref{Kind: writ.KindVolume, Name: "base", UID: "u0"}, "size_gib": int64(1) << 15,
	}))
	want.Own.Path = "/somewhere"
	if err := records.Put(want); err != nil {
		t.Fatal(err)
	}
	got, err := records.Get(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := records.Remove(root); err != nil {
		t.Fatal(err)
	}
	if err := records.Remove(root); err != nil {
		t.Errorf("a second Remove: %v", err)
	}
	if got, err := records.Get(root); got != nil || err != nil {
		t.Errorf("after Remove: %v, %v", got, err)
	}
}

func TestInterruptedPutIsAtomic(t *testing.T) {
	type stopped struct{}
	for stop := 0; ; stop++ {
		records := &Records[own]{Dir: t.TempDir()}
		r := NewRecord[own](request(t, "volume.create", "u1", map[string]any{"size_gib": int64(1)}))
		if err := records.Put(r); err != nil {
			t.Fatal(err)
		}
		steps := 0
		records.Step = func(string) {
			if steps == stop {
				panic(stopped{})
			}
			steps++
		}
		finished := func() bool {
			defer func() { _ = recover() }()
			r.Generation = 1
			return records.Put(r) == nil
		}()
		all, _, err := records.List()
		if err != nil || len(all) != 1 || (finished && all[0].Generation != 1) {
			t.Fatalf("stopped after %d steps: %v, %v", stop, all, err)
		}
		if finished {
			return
		}
	}
}

func TestAHalfWrittenRecordLeavesNoFile(t *testing.T) {
	records := &Records[own]{Dir: filepath.Join(t.TempDir(), "records")}
	if err := records.Put(NewRecord[own](request(t, "volume.create", "u1", map[string]any{"size_gib": int64(1)}))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(records.path(root)+".tmp", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := records.Remove(root); err != nil {
		t.Fatal(err)
	}
	if left, err := FileNames(records.Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestHostErrorKeepsKnownErrors(t *testing.T) {
	known := writ.Errorf(writ.CodeQuotaExceeded, "full")
	for _, tt := range []struct {
		err  error
		code writ.Code
	}{
		{fmt.Errorf("write: %w", syscall.ENOSPC), writ.CodeDiskFull},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, writ.CodeQuotaExceeded},
		{syscall.EIO, writ.CodeDriverFailed},
		{fmt.Errorf("inner: %w", known), writ.CodeQuotaExceeded},
	} {
		if got := HostError("do it", tt.err); writ.CodeOf(got) != tt.code {
			t.Errorf("%v became %s", tt.err, writ.CodeOf(got))
		}
	}
	if got := HostError("do it", context.Canceled); !errors.Is(got, context.Canceled) || writ.CodeOf(got) != writ.CodeInternal {
		t.Errorf("the end of a context became %v", got)
	}
}
