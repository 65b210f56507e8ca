// Package meant suggests a known name for a mistyped one. It must not know the things that have the names.
package meant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Question returns "did you mean X?" if a candidate is close to a word, and "" otherwise.
func Question(word string, candidates []string) string {
	// Of equally close candidates, one of about the same length: "machine.creat" is not "machine".
	near := slices.SortedStableFunc(slices.Values(candidates), func(a, b string) int {
		return cmp.Compare(max(len(a)-len(word), len(word)-len(a)), max(len(b)-len(word), len(word)-len(b)))
	})
	if closest := Closest(word, near); closest != "" {
		return fmt.Sprintf("did you mean %q?", closest)
	}
	return ""
}

// Hint returns the hint for an unknown word: the question about the closest candidate if there is one, then a sentence that helps in any case.
func Hint(word string, candidates []string, sentence string) string {
	return strings.TrimPrefix(Question(word, candidates)+" "+sentence, " ")
}

// Among is Hint for candidates that have names.
func Among[T any](word string, all []T, name func(T) string, sentence string) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = name(one)
	}
	return Hint(word, names, sentence)
}
