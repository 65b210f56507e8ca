package sqlstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/internal/clip"
)

// maxWords limits the searchable text of a run, and the text of its parameters, in bytes. Longer texts are truncated.
const maxWords = 4096

// wordsOf returns the searchable text of a run: its names and its failure.
func wordsOf(run writ.Run) string {
	all := []string{run.Script, run.Deployment, run.ProjectName, run.Signer}
	if f := run.Failure; f != nil {
		all = append(all, string(f.Code), f.Message, f.Position)
	}
	return searchable(strings.Join(all, " "))
}

// parametersOf returns the searchable text of parameters: "image=web replicas=3".
func parametersOf(params map[string]any) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		text, ok := params[name].(string)
		if !ok {
			text = valueText(params[name])
		}
		all = append(all, name+"="+text)
	}
	return searchable(strings.Join(all, " "))
}

func valueText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// searchable normalizes a text for storage and search: lower case, valid UTF-8, without the zero bytes that PostgreSQL
// rejects, and at most maxWords bytes.
func searchable(text string) string {
	text = strings.ToLower(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), ""))
	return clip.Prefix(text, maxWords)
}

// likePattern returns a LIKE pattern that matches text anywhere.
func likePattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text) + "%"
}

// andText adds the condition for runs that match a text. It scans the runs, because a match can start anywhere. There
// are many calls, so resource names are indexed and match only from their start.
func andText(q *query, text string) {
	if text = searchable(text); text == "" { // no run matches; an empty pattern would match every run
		q.and("1 = 0")
		return
	}
	pattern := likePattern(text)
	q.and(`(words LIKE ? ESCAPE '\' OR parameters LIKE ? ESCAPE '\' OR id IN (SELECT run FROM calls WHERE name <> '' AND name >= ? AND name < ?))`,
		pattern, pattern, text, text+"~") // "~" sorts after all characters of a name
}
