package coord

import (
	"testing"

	"writ"
	"writ/coord/api"
)

// TestRunsMissingInRestoredJournalRestartOrEnd restores the journal of a datacenter from a backup that has
// none of its runs.
func TestRunsMissingInRestoredJournalRestartOrEnd(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, nil)
	var runs []writ.RunID
	for range 2 {
		in, err := p.submit(signedScript(t, payload()))
		if err != nil {
			t.Fatal(err)
		}
		p.await("delivered", func() bool { return p.run(in.Run).State == api.RunStateAccepted })
		running := writ.Run{ID: in.Run, Payload: in.Payload, State: writ.RunRunning, Accepted: in.Received}
		s.tell(writ.Event{Run: &running})
		p.await("running", func() bool { return p.run(in.Run).State == api.RunStateRunning })
		runs = append(runs, in.Run)
	}
	s.leave()

	refused := 0
	s = connect(p, vienna, func(s *supervisor) {
		s.journal = "restored"
		s.refuses = func() error { // refuses the first one
			if refused++; refused == 1 {
				return writ.Errorf(writ.CodeExpired, "it expired an hour ago")
			}
			return nil
		}
	})
	count := func(state api.RunState) (n int, last api.Run) {
		for _, id := range runs {
			if run := p.run(id); run.State == state {
				n, last = n+1, run
			}
		}
		return n, last
	}
	p.await("one begins again", func() bool { n, _ := count(api.RunStateAccepted); return n == 1 })
	n, failed := count(api.RunStateFailed)
	if n != 1 || failed.Failure == nil || failed.Failure.Code != writ.CodeRunLost || failed.Ended.IsZero() {
		t.Errorf("the other: %+v", failed)
	}
	if len(s.took()) != 1 {
		t.Errorf("it took %v", s.took())
	}
	s.leave()
	connect(p, vienna, func(again *supervisor) {
		again.journal = "restored"
		again.refuses = func() error { t.Error("it is asked again"); return nil }
	})
}
