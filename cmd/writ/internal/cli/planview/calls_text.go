package planview

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"writ"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/sal/catalog"
	"writ/scripts"
)

// callsText writes the calls of a plan.
type callsText struct{ *planWriter }

// call writes one call: its action, its name, its line in the script and its arguments.
func (t callsText) call(i, width int) {
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
func (t callsText) why(p *writ.PreviewedCall) {
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
func (t callsText) fields(c *scripts.PlannedCall, p *writ.PreviewedCall) {
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
	if effect := updateEffect(c, p); effect != "" {
		t.line("      %s %s", t.Paint(terminal.Changed, "effect:"), effect)
	}
}

// isMap reports whether an argument of an operation is a map with keys that the script chooses.
func isMap(op *catalog.Operation, field string) bool {
	return slices.ContainsFunc(op.Args, func(f catalog.Field) bool { return f.Name == field && f.Type == catalog.Map })
}

// entries writes only the entries of a map that differ, because a map such as the environment of a container may have
// many entries. It reports false if no entry looks different.
func (t callsText) entries(field string, from, to any) (shown bool) {
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
func (t callsText) arguments(c *scripts.PlannedCall) {
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
