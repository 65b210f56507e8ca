package remedy

import (
	"strings"
	"testing"

	"writ"
)

func TestCommandFollowsFromTheReason(t *testing.T) {
	t.Parallel()
	own, other := writ.RunID(strings.Repeat("a", 26)), writ.RunID(strings.Repeat("b", 26))
	hold := func(h writ.HoldReason) writ.Reason { return writ.Reason{Code: writ.ReasonHold, Hold: &h} }
	open := func(cause writ.Reason) writ.Reason {
		return writ.Reason{Code: writ.ReasonOpenCall, Seq: 1, Cause: &cause}
	}
	noNode := func(nodes ...writ.NodesReason) writ.Reason {
		return writ.Reason{Code: writ.ReasonNoNode, Nodes: nodes, Text: "the datacenter has no nodes yet"}
	}
	node := func(state string) writ.Reason { return writ.Reason{Code: writ.ReasonNode, Node: "n1", State: state} }
	silent := node(string(writ.LivenessSilent))
	const hostile = "waits for node n1, which is lost; is on hold (writ release --dc dc1): "
	failure := writ.Errorf(writ.CodeDriverFailed, hostile)
	for name, tt := range map[string]struct {
		why  writ.Reason
		want string
	}{
		"None":                {},
		"OpenCall":            {writ.Reason{Code: writ.ReasonOpenCall, Seq: 1, State: "running", Node: "n1"}, ""},
		"Progress":            {open(writ.Reason{Code: writ.ReasonProgress, Text: hostile}), ""},
		"Text":                {writ.Reason{Code: writ.ReasonText, Text: hostile}, ""},
		"NewerVersion":        {writ.Reason{Code: "of_tomorrow", Text: hostile}, ""},
		"DatacenterFaulty":    {writ.Reason{Code: writ.ReasonFaulty, Text: hostile}, "writ dc list"},
		"DatacenterConnects":  {writ.Reason{Code: writ.ReasonConnect, Datacenter: "dc1"}, "writ dc list"},
		"DatacenterAway":      {writ.Reason{Code: writ.ReasonAway, Cause: &silent}, "writ dc list"},
		"Hold":                {open(hold(writ.HoldReason{Datacenter: "dc1", Project: "shop", By: "alice"})), "writ release --dc dc1 --project shop"},
		"HoldWithInvalidName": {hold(writ.HoldReason{Datacenter: "dc1; reboot", Text: hostile}), ""},
		"HoldWithoutScope":    {writ.Reason{Code: writ.ReasonHold}, ""},
		"EarlierRun":          {writ.Reason{Code: writ.ReasonRun, Run: other, Deployment: "web"}, "writ run explain " + string(other)},
		"OwnRun":              {writ.Reason{Code: writ.ReasonRun, Run: own, Deployment: "web"}, ""},
		"InvalidRun":          {writ.Reason{Code: writ.ReasonRun, Run: "$(reboot)"}, ""},
		"ResourceInUse":       {writ.Reason{Code: writ.ReasonResource, Run: other, Resource: "herodb db"}, "writ run explain " + string(other)},
		"CordonedNode": {open(noNode(
			writ.NodesReason{Names: []string{"n2"}, Code: writ.VerdictNoLabel, Text: "has no label gpu=h100"},
			writ.NodesReason{Names: []string{"n1"}, Code: writ.VerdictClosed, State: "cordoned", Text: "is cordoned"})), "writ node uncordon n1 --dc dc1"},
		"DrainingNodes": {noNode(
			writ.NodesReason{Names: []string{"n1", "n2", "n3"}, More: 4, Code: writ.VerdictClosed, State: "draining", Text: "is draining"},
			writ.NodesReason{Names: []string{"n9"}, Code: writ.VerdictNotReady, State: "silent", Text: "is silent"}), "writ node uncordon n1 --dc dc1"},
		"SilentNodes":      {noNode(writ.NodesReason{Names: []string{"n1"}, Code: writ.VerdictNotReady, Text: "is cordoned"}), "writ node list"},
		"NoNodes":          {noNode(), "writ node list"},
		"InvalidNode":      {noNode(writ.NodesReason{Names: []string{"$(reboot)"}, Code: writ.VerdictClosed}), "writ node list"},
		"NodeSilent":       {silent, "writ node show n1 --dc dc1"},
		"NodeFaulty":       {open(writ.Reason{Code: writ.ReasonNode, Node: "n1", Text: "the disk is full"}), "writ node show n1 --dc dc1"},
		"NodeLost":         {open(node(string(writ.LivenessLost))), "writ node lost n1 --dc dc1"},
		"NodeRemoved":      {node(string(writ.AdmissionRemoved)), "writ node lost n1 --dc dc1"},
		"CallWaitsForNode": {writ.Reason{Code: writ.ReasonLostNode, Node: "n1"}, "writ node lost n1 --dc dc1"},
		"CallMayMove":      {open(writ.Reason{Code: writ.ReasonLostWord, Node: "n1"}), "writ node lost n1 --dc dc1"},
		"ReportOfLostNode": {writ.Reason{Code: writ.ReasonNodeReport, Nodes: []writ.NodesReason{{Names: []string{"n1"}},
			{Names: []string{"n2"}, State: string(writ.LivenessLost), Text: "is lost"}}}, "writ node lost n2 --dc dc1"},
		"ReportOfSilentNode": {writ.Reason{Code: writ.ReasonNodeReport, Nodes: []writ.NodesReason{{Names: []string{"n1"}, State: "silent"}}}, "writ node list"},
		"Slot":               {open(writ.Reason{Code: writ.ReasonSlot}), "writ node list"},
		"Ending":             {writ.Reason{Code: writ.ReasonEnding, Error: failure}, ""},
		"Retry":              {open(writ.Reason{Code: writ.ReasonRetry, Error: failure}), ""},
		"Loop":               {writ.Reason{Code: writ.ReasonLoop, Call: hostile, Text: hostile}, ""},
		"LoopOnSilentNode":   {writ.Reason{Code: writ.ReasonLoop, Cause: &silent}, "writ node show n1 --dc dc1"},
	} {
		if got := For(tt.why, own, "dc1"); got.Line != tt.want {
			t.Errorf("%s: %q, want %q", name, got.Line, tt.want)
		}
	}
	if got := For(silent, own, "$(reboot)"); got.Line != "writ node show n1" {
		t.Errorf("with an invalid datacenter: %q", got.Line)
	}
}

func TestLossIsOfferedWithItsEffect(t *testing.T) {
	t.Parallel()
	lost := For(writ.Reason{Code: writ.ReasonLostWord, Node: "n1"}, "", "dc1")
	if lost.Verb != DeclareLost || !strings.HasPrefix(lost.Effect(), "if the machine never comes back: ") {
		t.Errorf("%+v has the effect %q", lost, lost.Effect())
	}
	if removed := ForNode("n1", string(writ.AdmissionRemoved), "dc1"); removed.First() != "" || removed.Effect() == "" {
		t.Errorf("before the loss of a removed node the reader tries %q", removed.First())
	}
	if lost.First() == "" || List(ListNodes).First() != "" {
		t.Errorf("before the loss the reader tries %q, before a list %q", lost.First(), List(ListNodes).First())
	}
	if shown := lost.WithoutLoss(); shown.Line != "writ node show n1 --dc dc1" || shown.Effect() != "" {
		t.Errorf("without the right, the reader gets %+v", shown)
	}
	if list := List(ListNodes); list.WithoutLoss() != list {
		t.Error("the right is needed for a list")
	}
}
