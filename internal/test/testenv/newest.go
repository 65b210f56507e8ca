package testenv

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// versionParts matches the parts of a path that compareVersions compares one by one.
var versionParts = regexp.MustCompile(`[0-9]+|[^0-9]+`)

// compareVersions compares paths that contain versions. It compares numbers by value, so version 10 follows version 9.
func compareVersions(a, b string) int {
	return slices.CompareFunc(versionParts.FindAllString(a, -1), versionParts.FindAllString(b, -1),
		func(a, b string) int {
			if !isDigit(a[0]) || !isDigit(b[0]) {
				return strings.Compare(a, b)
			}
			a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
			return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
		})
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
