package writ_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/cbor"
)

func TestReasonBecomesASentence(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
	hold := &writ.HoldReason{Datacenter: "ams1", Project: "shop", By: "alice", Since: noon, Text: "the disks fail"}
	failure := &writ.Error{Code: writ.CodeDiskFull, Message: "the server says: no"}
	run := writ.RunID(strings.Repeat("b", 26))
	for want, r := range map[string]writ.Reason{
		"":                                     {},
		"waits for call 2, volume.create data": {Code: writ.ReasonCall, Seq: 2, Call: "volume.create data"},
		"another run, " + string(run) + ", still works on the volume data":      {Code: writ.ReasonResource, Run: run, Resource: "volume data"},
		"waits for run " + string(run) + ", an earlier one of the deployment w": {Code: writ.ReasonRun, Run: run, Deployment: "w"},
		"is on hold (writ release --dc ams1 --project shop): alice has held the project shop since 12:00:05 UTC (the disks fail)": {
			Code: writ.ReasonHold, Hold: hold},
		"goes with call 2, volume.create data, which is on hold (writ release --dc ams1): the supervisor itself has held the datacenter since 12:00:05 UTC": {
			Code: writ.ReasonHold, Seq: 2, Call: "volume.create data", Hold: &writ.HoldReason{Datacenter: "ams1", Since: noon}},
		"is on hold: alice has held the datacenter since 12:00:05 UTC": {
			Code: writ.ReasonHold, Hold: &writ.HoldReason{Datacenter: "ams1;reboot", By: "alice", Since: noon}},
		"no node is ready: n1, n2, n3 and 4 more: each is draining; n9: is silent; and 3 more nodes cannot run it for other reasons": {
			Code: writ.ReasonNoNode, More: 3, Nodes: []writ.NodesReason{{Names: []string{"n1", "n2", "n3"}, More: 4, Text: "is draining"}, {Names: []string{"n9"}, Text: "is silent"}}},
		"no node is ready: the datacenter has no nodes yet":                    {Code: writ.ReasonNoNode, Text: "the datacenter has no nodes yet"},
		"waits for node n1, which is silent":                                   {Code: writ.ReasonNode, Node: "n1", State: "silent"},
		"waits for node n1, which takes no work: the disk is full":             {Code: writ.ReasonNode, Node: "n1", Text: "the disk is full"},
		"its node n1 is lost; the call waits for it (on_loss)":                 {Code: writ.ReasonLostNode, Node: "n1"},
		"is tried again at 12:00:05 UTC, after DISK_FULL: the server says: no": {Code: writ.ReasonRetry, Until: noon, Error: failure},
		"ending: the server says: no":                                          {Code: writ.ReasonEnding, Error: failure},
		"its datacenter is away":                                               {Code: writ.ReasonAway},
		"its datacenter is away, and said last: call 2 (node.ping) is queued on n1, which is lost": {Code: writ.ReasonAway, Cause: &writ.Reason{
			Code: writ.ReasonOpenCall, Seq: 2, Call: "node.ping", State: "queued", Node: "n1", Cause: &writ.Reason{Code: writ.ReasonNode, Node: "n1", State: "lost"}}},
		"words of a newer version": {Code: "of_tomorrow", Text: "words of a newer version"},
	} {
		if got := r.String(); got != want {
			t.Errorf("%s: %q, want %q", r.Code, got, want)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back, stored writ.Reason
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(r) {
			t.Errorf("%s: as JSON %s it comes back as %+v, %v", r.Code, text, back, err)
		}
		body, err := cbor.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := cbor.Decode(body, &stored); err != nil || !stored.Equal(r) {
			t.Errorf("%s: as CBOR it comes back as %+v, %v", r.Code, stored, err)
		}
	}
	for want, r := range map[string]writ.Reason{
		"": {},
		"it is on hold: alice has held the datacenter since 12:00:05 UTC":        {Code: writ.ReasonHold, Hold: &writ.HoldReason{By: "alice", Datacenter: "$", Since: noon}},
		"it waits for node n1, which is silent":                                  {Code: writ.ReasonNode, Node: "n1", State: "silent"},
		"it waits for the first call that uses it, or for the end of the script": {Code: writ.ReasonUnused},
		"it takes over the volume v, which was left on n1 by its run":            {Code: writ.ReasonTakeOver, Resource: "volume v", Node: "n1", Text: "its run"},
		"it was resumed by alice":                                                {Code: writ.ReasonResumed, By: "alice"},
		"no node is ready: none":                                                 {Code: writ.ReasonNoNode, Text: "none"},
		"its node n1 is lost; the call waits for it (on_loss)":                   {Code: writ.ReasonLostNode, Node: "n1"},
		"is a word of a script":                                                  {Code: writ.ReasonText, Text: "is a word of a script"},
		"call 2 (node.ping) is planned: it is tried again at 12:00:05 UTC, after DISK_FULL: the server says: no": {
			Code: writ.ReasonOpenCall, Seq: 2, Call: "node.ping", State: "planned", Cause: &writ.Reason{Code: writ.ReasonRetry, Until: noon, Error: failure}},
	} {
		if got := r.Sentence(); got != want {
			t.Errorf("%s: as a sentence %q, want %q", r.Code, got, want)
		}
	}
	lost := writ.Reason{Code: writ.ReasonLostWord, Node: "n1"}
	if with, without := lost.String(), lost.Brief(); with != without+" (writ node lost n1)" {
		t.Errorf("with its command %q, without %q", with, without)
	}
}
