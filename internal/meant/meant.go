// Package meant suggests a known name for a mistyped one. It does not depend on the meaning of the names.
package meant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Question returns "did you mean X?" if a candidate is close to a word, or else "".
func Question(word string, candidates []string) string {
	// Candidates of similar length come first, so that "machine.creat" is not taken for "machine".
	near := slices.SortedStableFunc(slices.Values(candidates), func(a, b string) int {
		return cmp.Compare(max(len(a)-len(word), len(word)-len(a)), max(len(b)-len(word), len(word)-len(b)))
	})
	if closest := Closest(word, near); closest != "" {
		return fmt.Sprintf("did you mean %q?", closest)
	}
	return ""
}

// Hint returns the hint for an unknown word: a question about the closest candidate, if any, and a sentence that helps
// in any case.
func Hint(word string, candidates []string, sentence string) string {
	return strings.TrimPrefix(Question(word, candidates)+" "+sentence, " ")
}

// Among is Hint for a list of values with names.
func Among[T any](word string, all []T, name func(T) string, sentence string) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = name(one)
	}
	return Hint(word, names, sentence)
}

// maxMembers limits the members in a help text.
const maxMembers = 16

// Member returns the help for an unknown member of a value: a question about the closest member or, if none is close,
// the list of members of "it".
func Member(name string, members []string) string {
	if closest := Closest(name, members); closest != "" {
		return fmt.Sprintf("did you mean %q?", closest)
	}
	return Members("it", members)
}

// Members formats the members of a module or value: "run has id, log and 3 more".
func Members(owner string, members []string) string {
	switch more := len(members) - maxMembers; {
	case len(members) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("%s has %s and %d more", owner, strings.Join(members[:maxMembers], ", "), more)
	}
	return owner + " has " + strings.Join(members, ", ")
}
