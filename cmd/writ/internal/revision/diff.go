package revision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"writ/identity"
	"writ/identity/header"
	"writ/internal/imageref"
)

// Part is a part of a signed text that differs between two revisions.
type Part struct {
	Name   string `json:"name"`   // "web.tengo", a module, "parameters", "images", "uses", "secrets", "destructive", "prune" or "limits"
	Change string `json:"change"` // added, removed or changed
	Diff   string `json:"diff"`   // a unified diff
}

// Forms of Part.Change.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

// Diff compares the signed texts of two revisions, and returns the parts that differ. It ignores signer, time and
// validity.
func Diff(from, to *Revision) []Part {
	return DiffToText(from, to.Payload, fmt.Sprint(to.Number))
}

// DiffToText compares a revision with a text that is not a revision yet. In the diffs, label replaces the number of the
// newer revision.
func DiffToText(older *Revision, to *identity.Payload, label string) (parts []Part) {
	from := older.Payload
	add := func(name string, from, to []byte) {
		text := diff.Diff(fmt.Sprintf("%s@%d", name, older.Number), from, name+"@"+label, to)
		if len(text) == 0 {
			return
		}
		_, text, _ = bytes.Cut(text, []byte("\n")) // the first line repeats the next two
		p := Part{Name: name, Change: changed, Diff: string(text)}
		switch {
		case len(from) == 0:
			p.Change = added
		case len(to) == 0:
			p.Change = removed
		}
		parts = append(parts, p)
	}
	before, after := filesOf(from), filesOf(to)
	names := slices.Sorted(maps.Keys(union(before, after)))
	main := to.Script.Name
	slices.SortStableFunc(names, func(a, b string) int { // the script first
		switch {
		case a == main && b != main:
			return -1
		case b == main && a != main:
			return 1
		}
		return 0
	})
	for _, name := range names {
		add(name, before[name], after[name])
	}
	add("parameters", paramLines(from.Params), paramLines(to.Params))
	for _, list := range []struct {
		name     string
		from, to []string
	}{
		{"uses", from.Uses, to.Uses}, {"images", from.Images, to.Images}, {"secrets", from.Secrets, to.Secrets},
		{"destructive", from.Targets, to.Targets}, {"prune", from.Prune, to.Prune},
	} {
		add(list.name, listLines(list.from), listLines(list.to))
	}
	add("limits", limitLines(from), limitLines(to))
	return parts
}

func union(a, b map[string][]byte) map[string][]byte {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// filesOf returns the script and the modules of a signed text by their names.
func filesOf(p *identity.Payload) map[string][]byte {
	files := map[string][]byte{p.Script.Name: p.Script.Text}
	for _, m := range p.Modules {
		files[m.Name] = m.Text
	}
	return files
}

// paramLines writes the parameters as lines of a JSON object.
func paramLines(params map[string]any) []byte {
	if len(params) == 0 {
		return nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(params); err != nil {
		panic(err) // unreachable: they were parsed from JSON
	}
	return text.Bytes()
}

func listLines(list []string) []byte {
	if len(list) == 0 {
		return nil
	}
	return []byte(strings.Join(slices.Sorted(slices.Values(list)), "\n") + "\n")
}

func limitLines(p *identity.Payload) []byte {
	return fmt.Appendf(nil, "deadline: %s\nmax-calls: %d\n", header.FormatDuration(p.Deadline), p.MaxCalls)
}

// Changes describes the differences of Diff in one line, as "web.tengo +2 -1, count 1 → 3, image nginx 1.26 → 1.27". It
// is empty if the texts are equal. Values are not shortened.
func Changes(from, to *Revision) string {
	var all []string
	for _, p := range Diff(from, to) {
		switch p.Name {
		case "parameters":
			all = append(all, paramChanges(from.Payload.Params, to.Payload.Params)...)
		case "images":
			all = append(all, imageChanges(from.Payload.Images, to.Payload.Images)...)
		case "uses", "secrets", "destructive", "prune", "limits":
			all = append(all, p.Name)
		default:
			plus, minus := p.Lines()
			all = append(all, fmt.Sprintf("%s +%d -%d", p.Name, plus, minus))
		}
	}
	return strings.Join(all, ", ")
}

// Lines returns the number of lines that the diff of a part adds and removes.
func (p Part) Lines() (plus, minus int) {
	for i, line := range strings.Split(p.Diff, "\n") {
		switch {
		case i < 2: // the names
		case strings.HasPrefix(line, "+"):
			plus++
		case strings.HasPrefix(line, "-"):
			minus++
		}
	}
	return plus, minus
}

func paramChanges(from, to map[string]any) (all []string) {
	names := maps.Clone(from)
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, had := from[name]
		after, has := to[name]
		switch {
		case !had:
			all = append(all, fmt.Sprintf("%s = %s", name, short(after)))
		case !has:
			all = append(all, "without "+name)
		case !reflect.DeepEqual(before, after):
			all = append(all, fmt.Sprintf("%s %s → %s", name, short(before), short(after)))
		}
	}
	return all
}

// ParametersText formats parameters in one line, sorted by name: "count = 3, note = old".
func ParametersText(params map[string]any) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		all = append(all, name+" = "+short(params[name]))
	}
	return strings.Join(all, ", ")
}

// short formats a value in one line.
func short(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "?" // not possible: it was parsed from JSON
	}
	return strings.Trim(string(text), `"`)
}

// imageChanges names the images that only one of the lists has. An image with another tag or digest is one change.
func imageChanges(from, to []string) (all []string) {
	versions := func(list []string) map[string][]string {
		by := make(map[string][]string)
		for _, text := range list {
			r, err := imageref.Parse(text)
			if err != nil {
				continue // not possible: the header was parsed
			}
			by[r.Name()] = append(by[r.Name()], version(r))
		}
		return by
	}
	before, after := versions(from), versions(to)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, a := strings.Join(before[name], " "), strings.Join(after[name], " ")
		image := "image " + name[strings.LastIndex(name, "/")+1:]
		switch {
		case b == a:
		case b == "":
			all = append(all, image+" "+a)
		case a == "":
			all = append(all, "without "+image)
		default:
			all = append(all, fmt.Sprintf("%s %s → %s", image, b, a))
		}
	}
	return all
}

// version returns the tag of an image with the start of its digest: "1.27@0123abcd".
func version(r imageref.Reference) string {
	const shown = len("sha256:") + 8
	return r.Tag + "@" + strings.TrimPrefix(r.Digest[:min(shown, len(r.Digest))], "sha256:")
}
