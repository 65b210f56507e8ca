package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/scripts"
)

// The client accepts a preview only for the requested calls.
func TestPreviewsOfOtherCallsAreNotBelieved(t *testing.T) {
	var answer writ.Preview
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a reader that fails reports the error
	}))
	defer server.Close()
	c, err := New(config.Context{Servers: []string{server.URL}}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	plan := scripts.Plan{Calls: []scripts.PlannedCall{{Seq: 1, Operation: "node.ping"}}}
	read := func(seq int) writ.PreviewedCall { return writ.PreviewedCall{Seq: seq, Action: writ.ActionRead} }
	for _, tt := range []struct {
		calls []writ.PreviewedCall
		want  writ.Code
	}{
		{[]writ.PreviewedCall{read(1)}, ""},
		{nil, writ.CodeExecError},
		{[]writ.PreviewedCall{read(9)}, writ.CodeExecError},
		{[]writ.PreviewedCall{read(1), read(2)}, writ.CodeExecError},
	} {
		answer.Calls = tt.calls
		if _, err := c.Orders.preview(t.Context(), Order{Datacenter: "d"}, &plan, true); writ.CodeOf(err) != tt.want {
			t.Errorf("%+v: %v, want %q", tt.calls, err, tt.want)
		}
	}
}

// A script that deletes is generated from the kept resources, so a hostile coordinator chooses their kinds and names.
func TestInvalidKeptResourcesAreRejected(t *testing.T) {
	var answer writ.Preview
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a reader that fails reports the error
	}))
	defer server.Close()
	c, err := New(config.Context{Servers: []string{server.URL}}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		kept writ.KeptResource
		more int
		want writ.Code
	}{
		"honest":         {writ.KeptResource{Kind: writ.KindVolume, Name: "web-0"}, 3, ""},
		"unknown kind":   {writ.KeptResource{Kind: "node", Name: "web-0"}, 0, writ.CodeUnverified},
		"injected kind":  {writ.KeptResource{Kind: "run := import(\"run\")\nvolume", Name: "web-0"}, 0, writ.CodeUnverified},
		"no kind":        {writ.KeptResource{Name: "web-0"}, 0, writ.CodeUnverified},
		"injected name":  {writ.KeptResource{Kind: writ.KindVolume, Name: "web-0\")\nvolume.delete(\"db"}, 0, writ.CodeUnverified},
		"pattern":        {writ.KeptResource{Kind: writ.KindVolume, Name: "web-*"}, 0, writ.CodeUnverified},
		"no name":        {writ.KeptResource{Kind: writ.KindVolume}, 0, writ.CodeUnverified},
		"negative count": {writ.KeptResource{Kind: writ.KindVolume, Name: "web-0"}, -1, writ.CodeUnverified},
	} {
		answer = writ.Preview{Revision: 1, Calls: []writ.PreviewedCall{}, Kept: []writ.KeptResource{tt.kept}, KeptMore: tt.more}
		_, err := c.Orders.Preview(t.Context(), Order{Datacenter: "d"})
		if e := writ.AsError(err); writ.CodeOf(err) != tt.want || e != nil && e.Hint == "" {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// An order plans its script again only if an input has changed.
func TestOrderReusesItsPlan(t *testing.T) {
	order := Order{Script: NewScript("a.tengo", []byte("node := import(\"node\")\nnode.ping()\n")), MaxCalls: 10}
	plan := func() *scripts.PlannedCall {
		p, err := order.Plan(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &p.Calls[0]
	}
	first := plan()
	if plan() != first {
		t.Error("equal inputs were planned twice")
	}
	order.MaxCalls = 9
	if plan() == first {
		t.Error("other inputs have the plan of the first")
	}
}

func TestOnlyDigestsNamePlans(t *testing.T) {
	order := Order{Script: NewScript("a.tengo", []byte("node := import(\"node\")\nnode.ping()\n")), MaxCalls: 10}
	plan, err := order.Plan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	digest := plan.Digest.String()
	for named, want := range map[string]writ.Code{
		digest: "", digest[:MinPlanDigits]: "", strings.ToUpper(digest): "",
		digest[:MinPlanDigits-1]: writ.CodeUsage, digest + "0": writ.CodeUsage, "": writ.CodeUsage, "nonsense-nonsense": writ.CodeUsage,
		strings.Repeat("0", 64): writ.CodePlanMismatch,
	} {
		bound := order
		if err := bound.Bind(t.Context(), nil, named); writ.CodeOf(err) != want || want == "" && bound.PlanDigest != plan.Digest {
			t.Errorf("%q: %v, want %q", named, err, want)
		}
	}
}
