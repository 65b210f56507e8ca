package sqlstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/ledger"
)

// largeSubmission returns a submission with a text of half a MiB.
func largeSubmission() ledger.Incoming {
	payload := writ.DigestOf([]byte("large"))
	return ledger.Incoming{Submission: writ.Submission{
		Payload: payload, Run: writ.RunIDOf(payload), Datacenter: "dc", Project: "shop", Signer: "alice", Script: "a.tengo",
		Received: time.Now(), Expires: time.Now().Add(time.Hour),
	}, Signed: bytes.Repeat([]byte("text"), 128<<10)}
}

// SQLite writes a changed row as a whole, and a submission changes its state at least once.
func TestMovingSubmissionWritesNoText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path)
	defer s.Close()
	written := func() int {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	in := largeSubmission()
	if _, _, err := s.AddSubmission(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	before := written()
	if err := s.Deliver(t.Context(), in.Payload, writ.Run{ID: in.Run, Datacenter: "dc", Project: "shop", State: writ.RunAccepted, Accepted: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if grown := written() - before; before < len(in.Signed) || grown == 0 || grown > len(in.Signed)/2 {
		t.Errorf("the text has %d bytes; %d bytes were written before the delivery and %d for it", len(in.Signed), before, grown)
	}
	if text, err := s.Signed(t.Context(), in.Payload); err != nil || !bytes.Equal(text, in.Signed) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestTextsOfAnEarlierVersionStay(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		in := largeSubmission()
		refused := writ.DigestOf([]byte("refused"))
		row := "('%s', '%s', 'dc', 'shop', 'alice', 'a.tengo', '%s', '', 1, 2, '%s')"
		ofVersion(t, path, "0021", `INSERT INTO submissions (payload, run, datacenter, project, signer, script, state, failure, received, expires, signed)
			VALUES `+fmt.Sprintf(row, in.Payload, in.Run, "waiting", in.Signed)+", "+fmt.Sprintf(row, refused, writ.RunIDOf(refused), "refused", ""))
		s := open(t, path)
		defer s.Close()
		if text, err := s.Signed(t.Context(), in.Payload); err != nil || !bytes.Equal(text, in.Signed) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		if text, err := s.Signed(t.Context(), refused); writ.CodeOf(err) != writ.CodeNotFound {
			t.Errorf("text of a refused submission: %q, %v", text, err)
		}
		want := ledger.Waits{Submissions: 1, Bytes: int64(len(in.Signed))}
		if waits, err := s.WaitingBySigner(t.Context()); err != nil || waits["alice"] != want {
			t.Errorf("%+v, want %+v; %v", waits, want, err)
		}
	})
}
