package planview

import (
	"os"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// Text from a script stays in the code block, even if it contains fences, and it fits into a comment.
//
// Promise: Terminals and output: A plan in a comment contains no markup and mentions no person; a truncated plan
// keeps its deletions, digest and counts.
// How: The plan is one code block with a fence that its text cannot close; the calls are truncated first.
// Also: TestLongPlanKeepsEverythingASignerNeeds.
func TestPlanInACommentIsEscaped(t *testing.T) {
	term := terminal.New(os.Stdin, nil, nil, nil)
	plan := &View{Script: "web.tengo", Project: "shop", Plan: scripts.Plan{Logs: []string{"````", "@everybody", "\n```\n# Approved\n", strings.Repeat("é", 50_000)}}, Preview: &writ.Preview{}}
	text := newPlanText(term.Plain(), plan, false).markdown()
	begin, rest, _ := strings.Cut(text, "\n\n")
	if begin != "### writ plan: nothing to do" || !strings.HasPrefix(rest, "`````diff\n") || !strings.HasSuffix(rest, "\n`````\n") || strings.Count(text, "`````") != 2 {
		t.Errorf("%.300s … %s", text, text[len(text)-100:])
	}
	if len(text) > 65_536 || !strings.Contains(text, "too long for a comment") {
		t.Errorf("it has %d bytes", len(text))
	}
}

// A truncated plan retains the targets for the signer and the digest for the job.
func TestLongPlanKeepsEverythingASignerNeeds(t *testing.T) {
	long := strings.Repeat("machine/web,", 10_000)
	for name, plan := range map[string]*View{
		"many lines": {Plan: scripts.Plan{Logs: slices.Repeat([]string{"a line of the log"}, 10_000)}, Targets: []string{"volume/data"}},
		"ticks":      {Plan: scripts.Plan{Logs: []string{strings.Repeat("`", 50_000)}}, Targets: []string{"volume/data"}},
		"targets":    {Targets: []string{"volume/data", long}},
		"command":    {Targets: []string{"volume/data"}, Next: "writ submit " + long},
	} {
		plan.Preview, plan.Summary = &writ.Preview{}, map[string]int{"create": 3}
		text := newPlanText(terminal.New(os.Stdin, nil, nil, nil).Plain(), plan, false).markdown()
		for _, want := range []string{"\ndestroys volume/data", "\nplan " + plan.Digest.String() + "\n", "\n3 to create\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: text lacks %q: %.300s", name, want, text)
			}
		}
		if len(text) > 65_000 || name != "ticks" && !strings.Contains(text, "left out: it is too long for a comment\n") {
			t.Errorf("%s: it has %d bytes: %s", name, len(text), text[len(text)-300:])
		}
	}
}
