package sqlstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
)

// maxWords bounds the words by which a run is found, in bytes, and its parameters likewise. What is longer is found by its beginning.
const maxWords = 4096

// wordsOf are the words by which a run is found: its names, and why it failed.
func wordsOf(run writ.Run) string {
	all := []string{run.Script, run.Deployment, run.ProjectName, run.Signer}
	if f := run.Failure; f != nil {
		all = append(all, string(f.Code), f.Message, f.Position)
	}
	return searchable(strings.Join(all, " "))
}

// parametersOf are the words of parameters: "image=web replicas=3".
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

// searchable is a text as it is stored and asked for: in small letters, without the zeros that PostgreSQL does not take, and bounded.
func searchable(text string) string {
	text = strings.ToLower(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), ""))
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
}

// likePattern finds a text anywhere in another one.
func likePattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text) + "%"
}

// andText adds the condition that runs are found by a text. Each run is looked at: a text can begin anywhere. The names of resources are in an index,
// as there are many calls, so a text finds those that begin with it.
func andText(q *query, text string) {
	if text = searchable(text); text == "" { // nothing has it; a pattern of nothing would be everywhere
		q.and("1 = 0")
		return
	}
	pattern := likePattern(text)
	q.and(`(words LIKE ? ESCAPE '\' OR parameters LIKE ? ESCAPE '\' OR id IN (SELECT run FROM calls WHERE name <> '' AND name >= ? AND name < ?))`,
		pattern, pattern, text, text+"~") // which comes after all that names are made of
}
