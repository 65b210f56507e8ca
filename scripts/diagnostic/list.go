package diagnostic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"writ"
)

// Errors counts the errors in a list.
func Errors(list []Diagnostic) (n int) {
	for _, d := range list {
		if d.Severity == SeverityError {
			n++
		}
	}
	return n
}

// Invalid returns SCRIPT_INVALID with the first error of a list and the number of further errors, or nil without
// errors. `more` is the number of errors that the list omits.
func Invalid(list []Diagnostic, more int) error {
	n := more + Errors(list)
	if n == 0 {
		return nil
	}
	first := list[max(0, slices.IndexFunc(list, func(d Diagnostic) bool { return d.Severity == SeverityError }))]
	others := ""
	if n > 1 {
		others = fmt.Sprintf(" (and %d more)", n-1)
	}
	return writ.Errorf(writ.CodeScriptInvalid, "%s: %s%s", first.Position(), first.Message, others).
		WithHint("`writ check %s` shows everything; `writ explain %s` tells more", first.File, first.Topic())
}

// Text formats a list for a terminal. Diagnostics that differ only in their places are shown once. `more` is the number
// of errors that the list omits.
func Text(list []Diagnostic, more int) string {
	var texts []string
	unseen := more // errors that the text neither shows nor counts
	for i, d := range list {
		if slices.ContainsFunc(list[:i], d.equals) {
			unseen++
			continue
		}
		if d.Severity == SeverityError {
			unseen -= d.Same
		} else {
			unseen -= repeats(list, i)
		}
		text := d.String()
		if d.Same > 0 {
			text += otherPlaces(list, i)
		}
		texts = append(texts, text)
	}
	if unseen > 0 {
		texts = append(texts, fmt.Sprintf("and %d more errors\n", unseen))
	}
	return strings.Join(texts, "\n")
}

// repeats counts the later diagnostics of a list that equal the i-th one except for the place.
func repeats(list []Diagnostic, i int) (n int) {
	for _, other := range list[i+1:] {
		if other.equals(list[i]) {
			n++
		}
	}
	return n
}

// otherPlaces lists the later places of the i-th diagnostic.
func otherPlaces(list []Diagnostic, i int) string {
	const most = 5
	d, lines := list[i], []string{}
	for _, other := range list[i+1:] {
		if line := strconv.Itoa(other.Line); other.equals(d) && len(lines) < most && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text := fmt.Sprintf("%s = the same at %d more places", strings.Repeat(" ", len(strconv.Itoa(d.Line))), d.Same)
	if d.Same == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if len(lines) > 0 {
		text += ": line " + strings.Join(lines, ", ")
	}
	if d.Same > len(lines) {
		text += ", …"
	}
	return text + "\n"
}

// FirstOfEachKind splits diagnostics into the first of each kind, with Same set, and the rest.
func FirstOfEachKind(all []Diagnostic) (first, rest []Diagnostic) {
	index := make(map[Diagnostic]int)
	for _, d := range all {
		i, found := index[d.kind()]
		if found {
			first[i].Same++
			rest = append(rest, d)
			continue
		}
		index[d.kind()] = len(first)
		first = append(first, d)
	}
	return first, rest
}
