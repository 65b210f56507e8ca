package promises

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// List returns the page that lists promises by section.
func List(all []Promise) string {
	sections := map[string][]Promise{}
	for _, promise := range all {
		sections[promise.Section] = append(sections[promise.Section], promise)
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, len(all))
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&b, "\n## %s\n\n| promise | mechanism | tests |\n| --- | --- | --- |\n", section)
		rows := slices.SortedFunc(slices.Values(sections[section]), func(a, b Promise) int {
			return cmp.Compare(a.Sentence, b.Sentence)
		})
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(row.Sentence), cell(row.How), cell(places(row.Tests)))
		}
	}
	return b.String()
}

const head = `# Promises

This page is for auditors and for people who change writ. It lists %d promises, each with its mechanism and the tests
that fail if it breaks. [guarantees.md](guarantees.md) names the most important ones, and
[measurements.md](measurements.md) has the measured figures. The terms are in the [glossary](architecture.md#words).

` + "`go generate ./internal/test/promises`" + ` makes this page from the ` + "`Promise:`" + ` comments of the tests.
` + "`go test ./...`" + ` runs each test in its module. A test with *nightly* needs ` + "`WRIT_TEST_NIGHTLY=1`" + `, and
` + "`task nightly`" + ` runs it. A test with the name of a *module* belongs to the Go module in that folder.
`

// places names tests by their folders.
func places(tests []Test) string {
	var groups []string
	names := map[string][]string{}
	for _, test := range tests {
		place := test.Folder
		if test.Folder == "." {
			place = "root package"
		}
		if test.Module != "." {
			place += ", module " + test.Module
		}
		if test.Nightly {
			place += ", *nightly*"
		}
		if names[place] == nil {
			groups = append(groups, place)
		}
		name := test.Name
		if test.Subtest != "" {
			name += "/" + test.Subtest
		}
		names[place] = append(names[place], "`"+name+"`")
	}
	for i, place := range groups {
		groups[i] = strings.Join(names[place], ", ") + " (" + place + ")"
	}
	return strings.Join(groups, "; ")
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
