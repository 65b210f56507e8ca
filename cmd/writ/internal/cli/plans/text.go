package plans

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/sal/catalog"
	"writ/scripts"
)

// planText formats a plan: first the calls, then their known effects, then the limits of the plan.
type planText struct {
	*terminal.Terminal
	*planned
	wide    bool
	comment bool // the text is for readers of a pull request, not for the user who runs the command
	b       strings.Builder
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
	t.calls(min(width, 48))
	t.said()
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
	if t.failed() != nil {
		counts += ", and it would fail"
	}
	return fmt.Sprintf("### writ plan: %s\n\n%s", counts, cli.Fenced("diff", text))
}

// take returns the text written since the last call.
func (t *planText) take() string {
	defer t.b.Reset()
	return t.b.String()
}

func (t *planText) line(format string, args ...any) { fmt.Fprintf(&t.b, format+"\n", args...) }

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

// call writes one call: its action, its name, its line in the script and its arguments.
func (t *planText) call(i, width int) {
	c, action := &t.seen().Calls[i], t.action(i)
	m := marks[action]
	var preview writ.PreviewedCall
	if t.Preview != nil {
		preview = t.Preview.Calls[i]
	}
	title := terminal.Clean(t.title(c.Seq))
	pad := strings.Repeat(" ", max(width-utf8.RuneCountInString(title), 0))
	where := ""
	if preview.NodeName != "" {
		where = "  on " +
			runview.NodeName(writ.Call{NodeName: preview.NodeName, Driver: preview.Driver, Simulated: preview.Simulated})
	}
	if action == writ.ActionUnchanged || action == writ.ActionRead || action == writ.ActionUnreached {
		title = t.Paint(terminal.Dim, title)
	}
	t.line("%s %s%s%s", t.Paint(m.tone, m.symbol), title, pad,
		t.Paint(terminal.Dim, terminal.Clean(where+"  "+c.Position)))
	t.why(&preview)
	t.fields(c, &preview)
	final := slices.Contains([]writ.Action{
		writ.ActionUnchanged, writ.ActionRead, writ.ActionUnreached, writ.ActionRefused,
	}, action)
	if t.wide || len(preview.Fields) == 0 && !final {
		t.arguments(c)
	}
}

// why writes additional facts about a call that the user must know.
func (t *planText) why(p *writ.PreviewedCall) {
	for _, d := range p.Drift {
		t.line("      %s %s", t.Paint(terminal.Changed, "drift:"), terminal.Clean(d))
	}
	switch {
	case p.Error != nil:
		t.line("      %s %s", t.Paint(terminal.Bad, terminal.Clean(string(p.Error.Code)+":")),
			terminal.Clean(p.Error.Message))
		if p.Error.Hint != "" {
			t.line("      %s", terminal.Clean(p.Error.Hint))
		}
	case p.Reason != "" && (p.Waits || t.wide || p.NodeName == ""):
		t.line("      %s", terminal.Clean(p.Reason))
	}
	if p.Warning != "" {
		t.line("      %s %s", t.Paint(terminal.Changed, "warning:"), terminal.Clean(p.Warning))
	}
	if p.Waits || p.Error != nil {
		for _, n := range p.Nodes {
			t.line("      not %s: it %s", terminal.Clean(n.Name), terminal.Clean(n.Reason))
		}
	}
}

// fields writes the changes of a call to an existing resource.
func (t *planText) fields(c *scripts.PlannedCall, p *writ.PreviewedCall) {
	op, _ := catalog.Lookup(c.Operation)
	for _, f := range p.Fields {
		from := "(not given)"
		if len(f.From) > 0 {
			var v api.Values // numbers stay exact
			if json.Unmarshal([]byte(`{"v":`+string(f.From)+`}`), &v) == nil {
				if isMap(op, f.Field) && t.entries(f.Field, v["v"], c.Args[f.Field]) {
					continue
				}
				from = t.short(v["v"])
			}
		}
		t.line("      %s: %s → %s", terminal.Clean(f.Field), from, t.short(c.Args[f.Field]))
	}
}

// isMap reports whether an argument of an operation is a map with keys that the script chooses.
func isMap(op *catalog.Operation, field string) bool {
	return slices.ContainsFunc(op.Args, func(f catalog.Field) bool { return f.Name == field && f.Type == catalog.Map })
}

// entries writes the entries of a map that differ, because an environment may have many and lines are short. It reports
// false if no entry looks different.
func (t *planText) entries(field string, from, to any) (shown bool) {
	had, _ := from.(map[string]any)
	gets, _ := to.(map[string]any)
	names := maps.Clone(had)
	if names == nil {
		names = make(map[string]any)
	}
	maps.Copy(names, gets)
	say := func(entries map[string]any, name string) string {
		if v, ok := entries[name]; ok {
			return t.short(v)
		}
		return "(not given)"
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before, after := say(had, name), say(gets, name); before != after {
			shown = true
			t.line("      %s.%s: %s → %s", terminal.Clean(field), terminal.Clean(name), before, after)
		}
	}
	return shown
}

// arguments writes the arguments of a call. Defaults are included only in the wide form.
func (t *planText) arguments(c *scripts.PlannedCall) {
	op, _ := catalog.Lookup(c.Operation)
	for _, f := range op.Args {
		v, given := c.Args[f.Name]
		if !given || !t.wide && f.Default != nil && reflect.DeepEqual(v, f.Default) {
			continue
		}
		t.line("      %s: %s", f.Name, t.short(v))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		t.line("      %s: %s %s", terminal.Clean(name), t.short(c.Options[name]), t.Paint(terminal.Dim, "(option)"))
	}
}

// maxLines limits a value in a line, in characters.
const maxLines = 120

func (t *planText) short(v any) string {
	text := terminal.Clean(t.seen().Describe(v))
	if utf8.RuneCountInString(text) > maxLines && !t.wide {
		text = string([]rune(text)[:maxLines]) + "…"
	}
	return text
}

// said writes the log and the output of the script.
func (t *planText) said() {
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

// beyond writes where the plan ends if the script continues after that.
func (t *planText) beyond() {
	h := t.seen().Horizon
	if h != nil {
		t.line("\nThe plan ends at %s: %s.", terminal.Clean(h.Position), terminal.Clean(h.Reason))
		t.line("The actions of the script after that are unknown before it runs.")
	}
	if own := t.Horizon; own != nil && (h == nil || h.Position != own.Position) {
		t.line("\nBy itself the plan ends at %s: %s.", terminal.Clean(own.Position), terminal.Clean(own.Reason))
		t.line("The part beyond that follows from the current state of the datacenter; a run is held only to the part before.")
	}
}

func (t *planText) kept() {
	if t.Preview == nil || len(t.Preview.Kept) == 0 {
		return
	}
	t.line("\nkept: the deployment has resources that the plan does not name")
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
}

// end writes the digest, the summary and the next command.
func (t *planText) end() {
	t.line("\nplan %s", t.Digest)
	t.line("%s", t.summary())
	switch {
	case t.Next == "":
	case t.Denied != nil && t.comment: // the key of a CI job that plans should have no other role
		t.line("%s a person or job that may submit types: %s", t.Paint(terminal.Dim, "next:"), terminal.Clean(t.Next))
	case t.Denied != nil:
		t.line("%s you can plan this and read it, and not submit it: %s", t.Paint(terminal.Dim, "next:"),
			terminal.Clean(t.Denied.Message))
		t.line("      %s", terminal.Clean(t.Denied.Hint))
		t.line("      a person with that role types: %s", terminal.Clean(t.Next))
	default:
		t.line("%s %s", t.Paint(terminal.Dim, "next:"), terminal.Clean(t.Next))
	}
}

// destroys writes the targets that the signature must name.
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
