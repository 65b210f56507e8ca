package coord

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity/envelope"
	"writ/ledger"
	"writ/supervisor/link"
)

// The dashboard shows an output only if the datacenter of the run has signed it.
//
// Promise: Readers and roles: The dashboard shows an output only with the datacenter's signature, and a text only if
// its digest matches the run.
// How: The coordinator verifies the summary against the roster; the reader still trusts the coordinator that renders
// the page, while `writ run show` itself verifies.
// Also: TestRunPageShowsTheSignedOutput, TestRunPageReportsMissingText.
func TestPagesShowOnlySignedOutput(t *testing.T) {
	p := start(t, nil)
	id := writ.RunIDOf(writ.Digest{1})
	sign := func(datacenter writ.DatacenterID, run writ.RunID) []byte {
		signed, err := envelope.Sign(envelope.Summary, key("supervisor "+string(datacenter)), writ.Summary{Run: run, Output: map[string]any{"a": "b"}})
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	for name, tt := range map[string]struct {
		summary []byte
		shown   bool
		fails   bool
	}{
		"nothing":                  {nil, false, false},
		"signed":                   {sign(vienna, id), true, false},
		"of another run":           {sign(vienna, writ.RunIDOf(writ.Digest{2})), false, true},
		"signed by another":        {sign(graz, id), false, true},
		"no signed text of writ's": {[]byte("x"), false, true},
	} {
		out, err := p.live.Output(t.Context(), ledger.Run{Run: writ.Run{ID: id, Datacenter: vienna, Summary: tt.summary}})
		if (err != nil) != tt.fails || (out["a"] == "b") != tt.shown {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}

// Pages offer commands according to the current role of the reader.
//
// Promise: Readers and roles: The dashboard offers a command only to people whose role allows it.
// How: Each page checks the newest roster.
// Also: TestNodePageShowsStateAndCommands.
func TestPagesMatchTheRightsOfAReader(t *testing.T) {
	p, _ := startReading(t)
	sub := p.runFor(shop, "web-shop", "hello.tengo")
	for name, may := range map[string]bool{"carol": false, "dora": true, "otto": true, "adam": false, "gina": false} {
		_, body := p.as(p.token(name), http.MethodGet, "/runs/"+string(sub.Run))
		if got := strings.Contains(body, "writ run cancel "+string(sub.Run)); got != may {
			t.Errorf("%s is offered to cancel the run: %v", name, got)
		}
	}
}

// The coordinator itself samples its queues, without an open page.
func TestCoordinatorSamplesItsQueues(t *testing.T) {
	p := start(t, nil)
	connect(p, vienna, nil)
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, body := p.get("/"); strings.Contains(body, `data-history="[[`) {
			return
		}
		if time.Since(began) > hang {
			t.Fatal("no sample")
		}
	}
}

// The page of a node shows the live state from its datacenter, also of a waiting node, and of no other node.
//
// Promise: Operation: The page of a node shows its current last beat, state and slots.
// How: The datacenter is asked, as for `writ node show`.
func TestNodePageMatchesItsDatacenter(t *testing.T) {
	p, s := startReading(t)
	beat := time.Now().UTC().Add(-3 * time.Second).Truncate(time.Millisecond)
	s.mu.Lock()
	s.nodes = []link.NodeNow{
		{ID: "n1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingCordoned, Liveness: writ.LivenessReady, LastBeat: beat, Slots: 5},
		{ID: "n9", Waiting: &writ.Node{ID: "n9", Name: "waiting-9", Admission: writ.AdmissionPending}},
	}
	s.mu.Unlock()
	s.tell(writ.Event{Node: &writ.Node{ID: "n1", Name: "told-1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen, Liveness: writ.LivenessSilent}})
	p.await("the node", func() bool {
		list, err := p.Ledger.Nodes(t.Context(), ledger.NodeFilter{Nodes: []writ.NodeID{"n1"}}, ledger.Page{})
		return err == nil && len(list.Items) == 1
	})
	token := p.token("anna")
	for node, want := range map[string][]string{
		"n1": {"told-1", "cordoned", beat.Format("15:04:05"), "of 5 slots", "writ node uncordon told-1 --dc vienna"},
		"n9": {"waiting-9", "writ node approve waiting-9 FINGERPRINT --dc vienna"},
	} {
		status, body := p.as(token, http.MethodGet, "/nodes/"+string(vienna)+"/"+node)
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: status %d, %q is missing", node, status, text)
			}
		}
	}
	for _, none := range []string{"/nodes/" + string(vienna) + "/n2", "/nodes/" + string(graz) + "/n1"} {
		if status, _ := p.as(token, http.MethodGet, none); status != http.StatusNotFound {
			t.Errorf("%s: %d", none, status)
		}
	}
}

// A script cannot hide its log by writing more than fits into an answer of its datacenter.
//
// Promise: Commands and hosts: A script cannot hide its log by long lines: readers get the whole log.
// How: The coordinator requests fewer lines when an answer exceeds the link's limit.
func TestLogOfLongLinesIsReadWhole(t *testing.T) {
	p := start(t, nil)
	const most, all = 500, 620
	connect(p, vienna, func(s *supervisor) {
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
			if verb != link.VerbLogs {
				return s.handle(ctx, verb, params)
			}
			var asked link.Logs
			if err := link.Decode(params, &asked); err != nil {
				return nil, err
			}
			lines := []writ.LogLine{}
			for n := asked.After + 1; n <= min(asked.After+asked.Max, all); n++ {
				// Six times as long in JSON.
				lines = append(lines, writ.LogLine{Run: asked.Run, Ordinal: n, Text: strings.Repeat("<", 4<<10)})
			}
			return lines, nil
		}
	})
	sub, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("accepted", func() bool { return p.run(sub.Run).State == api.RunStateAccepted })
	for after, want := range map[int]int{0: most, most: all - most, all: 0} {
		page, err := api.Answer[api.LogPage](p.client.ListLogs(t.Context(), sub.Run, &api.ListLogsParams{After: api.Given(after), Limit: api.Given(most)}))
		if err != nil || len(page.Items) != want || want > 0 && (page.Items[0].Ordinal != after+1 || page.Items[want-1].Ordinal != after+want) {
			t.Errorf("after line %d: got %d lines, want %d: %v", after, len(page.Items), want, err)
		}
	}
}
