// Package target has the rules of targets: the resources that a signed submission may delete or overwrite.
package target

import (
	"slices"
	"strings"

	"writ"
	"writ/internal/lazyregexp"
)

const (
	// Any covers all resources of the run's project. Its signer needs the destructive flag in a binding to all projects.
	Any = "*"
	// Max limits the targets of a payload.
	Max = 200
	// MinPrefix is the minimum length of a prefix, in characters.
	MinPrefix = 3
)

// Pattern matches Any, a kind and a name ("volume/web-0"), or a kind and a prefix of names ("volume/web-*").
var Pattern = lazyregexp.New(`^(?:\*|[a-z]{1,32}/(?:[a-z0-9][a-z0-9-]{0,62}|[a-z0-9][a-z0-9-]{2,61}\*))$`)

// Valid reports whether text is a target: "volume/web-0", "volume/web-*" or Any.
func Valid(text string) bool { return Pattern.MatchString(text) }

// Of returns the target for exactly one resource.
func Of(kind writ.ResourceKind, name string) string { return string(kind) + "/" + name }

// Covered reports whether one of the targets covers a resource.
func Covered(targets []string, kind writ.ResourceKind, name string) bool {
	return slices.ContainsFunc(targets, func(target string) bool {
		if target == Any {
			return true
		}
		prefix, isPrefix := strings.CutSuffix(target, "*")
		one := Of(kind, name)
		return target == one || isPrefix && strings.HasPrefix(one, prefix)
	})
}
