package planview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// planText formats a plan: first the calls, then their known effects, then the limits of the plan.
type planText struct {
	*planWriter
	comment bool // the text is for readers of a pull request, not for the user of the terminal
}

// Text formats a plan for a terminal. The wide form has all arguments, and values in full length.
func Text(t *terminal.Terminal, v *View, wide bool) string { return newPlanText(t, v, wide).String() }

// Markdown formats a plan for a comment on a pull or merge request.
func Markdown(t *terminal.Terminal, v *View) string { return newPlanText(t, v, false).markdown() }

func newPlanText(t *terminal.Terminal, p *View, wide bool) *planText {
	return &planText{planWriter: &planWriter{Terminal: t, View: p, wide: wide}}
}

// planMark is the display form of an action.
type planMark struct {
	symbol string
	tone   terminal.Tone
	count  string // follows a number: "2 to create"
}

var marks = map[writ.Action]planMark{
	writ.ActionCreate:    {"+", terminal.Good, "to create"},
	writ.ActionUpdate:    {"~", terminal.Changed, "to update"},
	writ.ActionAct:       {"~", terminal.Changed, "to carry out"},
	writ.ActionDelete:    {"-", terminal.Bad, "to delete"},
	writ.ActionUnknown:   {"?", terminal.Changed, "not known yet"},
	writ.ActionUnchanged: {"=", terminal.Dim, "unchanged"},
	writ.ActionRead:      {"=", terminal.Dim, "to look at"},
	writ.ActionRefused:   {"!", terminal.Bad, "refused"},
	writ.ActionUnreached: {" ", terminal.Dim, "not reached"},
}

// actions lists all actions in the order of the summary.
var actions = []writ.Action{
	writ.ActionCreate, writ.ActionUpdate, writ.ActionAct, writ.ActionDelete, writ.ActionUnknown, writ.ActionUnchanged,
	writ.ActionRead, writ.ActionRefused, writ.ActionUnreached,
}

// String formats the whole plan.
func (t *planText) String() string {
	t.body()
	t.destroys()
	t.end()
	return t.b.String()
}

// body writes the actions of the script.
func (t *planText) body() {
	t.head()
	width := 0
	for _, c := range t.seen().Calls {
		width = max(width, utf8.RuneCountInString(terminal.Clean(t.title(c.Seq))))
	}
	callsText{t.planWriter}.calls(min(width, 48))
	t.scriptOutput()
	t.beyond()
	t.kept()
}

// markdown formats the plan for a comment. All text from the script is in one code block, so it can neither contain
// markup nor mention users. A long plan loses calls, but not the facts that the signer needs: the targets it destroys,
// its digest and its counts.
func (t *planText) markdown() string {
	t.comment = true
	t.destroys()
	end := cli.Shorten(t.take(), cli.MostMarkdown/4)
	t.end()
	end += cli.Shorten(t.take(), cli.MostMarkdown/4)
	t.body()
	text := cli.Shorten(t.take(), cli.MostMarkdown-len(end)) + end
	counts := "planned without a datacenter"
	if t.Preview != nil {
		counts = t.counts()
	}
	if t.Failed() != nil {
		counts += ", and it would fail"
	}
	return fmt.Sprintf("### writ plan: %s\n\n%s", counts, cli.Fenced("diff", text))
}

func (t *planText) head() {
	where := "in project " + t.Project
	if t.Datacenter != "" {
		where = "in " + t.Datacenter + ", project " + t.Project
	}
	t.line("%s %s", terminal.Clean(t.Script), terminal.Clean(where))
	if t.Preview == nil {
		t.line("planned without a datacenter: %s", terminal.Clean(t.Unasked))
	} else if t.Preview.Reason != "" {
		t.line("its run %s", terminal.Clean(t.Preview.Reason))
	}
	if len(t.seen().Calls) > 0 {
		t.line("")
	}
}

// scriptOutput writes the log and the output of the script.
func (t *planText) scriptOutput() {
	seen := t.seen()
	if len(seen.Logs) > 0 {
		t.line("\nlog")
		for _, l := range seen.Logs {
			t.line("  %s", terminal.Clean(l))
		}
	}
	if len(seen.Output) > 0 {
		t.line("\noutput")
		for _, name := range slices.Sorted(maps.Keys(seen.Output)) {
			t.line("  %s: %s", terminal.Clean(name), t.short(seen.Output[name]))
		}
	}
}

// beyond writes the position where the plan ends, if the script continues after this position.
func (t *planText) beyond() {
	h := t.seen().Horizon
	if h != nil {
		t.line("\nThe plan ends at %s: %s.", terminal.Clean(h.Position), terminal.Clean(h.Reason))
		t.line("The actions of the script after that are unknown before it runs.")
	}
	if own := t.Horizon; own != nil && (h == nil || h.Position != own.Position) {
		t.line("\nWithout the state of the datacenter, the plan ends at %s: %s.", terminal.Clean(own.Position),
			terminal.Clean(own.Reason))
		t.line("The part after that depends on the current state of the datacenter. A run must match only the part before it.")
	}
}

func (t *planText) kept() {
	if t.Preview == nil || len(t.Preview.Kept) == 0 {
		return
	}
	partial := t.seen().Horizon != nil || t.seen().Failure != nil
	if partial {
		t.line("\nnot in the plan, which ends before the script: the deployment also owns resources that the script may name later")
	} else {
		t.line("\nkept: the deployment has resources that the plan does not name")
	}
	for _, k := range t.Preview.Kept {
		where := ""
		if k.NodeName != "" {
			where = " on " + k.NodeName
		}
		t.line("  %s", terminal.Clean(string(k.Kind)+" "+k.Name+where))
	}
	if t.Preview.KeptMore > 0 {
		t.line("  and %d more", t.Preview.KeptMore)
	}
	if len(t.Prune) == 0 && !partial {
		t.line("  to delete them at the end of the run: --prune")
	}
}

// end writes the digest, the summary and the next command. Without a preview, it marks the line of the digest: a
// reviewer of such a plan has approved no effects, and writ-ci.sh ignores the digest of a marked line.
func (t *planText) end() {
	if t.Preview == nil {
		t.line("\nplan %s of the script alone: no datacenter has previewed it", t.Digest)
	} else {
		t.line("\nplan %s", t.Digest)
	}
	t.line("%s", t.summary())
	switch {
	case t.Next == "":
	case t.Denied != nil && t.comment: // a CI job that makes plans should not have a second role
		t.line("%s for a person or job that may submit: %s", t.Paint(terminal.Dim, "next:"), terminal.Clean(t.Next))
	case t.Denied != nil:
		t.line("%s you may plan and read this, but not submit it: %s", t.Paint(terminal.Dim, "next:"),
			terminal.Clean(t.Denied.Message))
		t.line("      %s", terminal.Clean(t.Denied.Hint))
		t.line("      for a person with that role: %s", terminal.Clean(t.Next))
	default:
		t.line("%s %s", t.Paint(terminal.Dim, "next:"), terminal.Clean(t.Next))
	}
}

// destroys writes the targets that the signature must name, and the resources to prune.
func (t *planText) destroys() {
	switch targets := terminal.Clean(strings.Join(t.Targets, ", ")); {
	case t.MoreTargets && targets == "":
		t.line("\ndestroys targets that are unknown before it runs: name them with --destructive=KIND/NAME,KIND/PREFIX*")
	case t.MoreTargets:
		t.line("\ndestroys %s, and more that are unknown before it runs: name them with --destructive=KIND/NAME,KIND/PREFIX*",
			targets)
	case targets != "":
		t.line("\ndestroys %s", targets)
	}
	if len(t.Prune) > 0 {
		t.line("\nprunes %s, when all calls have succeeded, unless the script names them",
			terminal.Clean(strings.Join(t.Prune, ", ")))
	}
}

// summary formats the counts: "3 to create, 1 to update, 2 unchanged".
func (t *planText) summary() string {
	text := t.counts()
	if t.Preview == nil {
		text = cli.Count(t.Summary["planned"], "call")
	}
	if h := t.seen().Horizon; h != nil {
		text += ", and the part after " + terminal.Clean(h.Position)
	}
	return text
}

// counts formats the number of calls by action.
func (t *planText) counts() string {
	var parts []string
	for _, action := range actions {
		if n := t.Summary[string(action)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, marks[action].count))
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
