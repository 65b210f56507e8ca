package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/internal/clip"
	"writ/internal/sqldb"
	"writ/ledger"
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

// andText adds the condition for runs that match a text. A match can start anywhere, so no index has the runs. There are
// many calls, so resource names are indexed and match only from their start.
func andText(q *query, text string) {
	if text = searchable(text); text == "" { // no run matches; an empty pattern would match every run
		q.and("1 = 0")
		return
	}
	pattern := likePattern(text)
	q.and(`(words LIKE ? ESCAPE '\' OR parameters LIKE ? ESCAPE '\' OR id IN (SELECT run FROM calls WHERE name <> '' AND name >= ? AND name < ?))`,
		pattern, pattern, text, text+"~") // sorts after all characters of a name
}

// maxExamined limits the runs that a page of a search reads. One run takes 1 to 2 µs (measured with 300,000 runs in
// SQLite), so a page takes less than 10 ms.
const maxExamined = ledger.MaxExamined

// isSearch reports whether a filter selects runs that no index has. A list of such runs could read all runs.
func isSearch(filter ledger.RunFilter) bool {
	of := filter.Script != "" || filter.Deployment != ""
	return filter.Text != "" || of && filter.Signer != "" || filter.Failure != "" || filter.Operation != ""
}

// listedBy returns a search without the conditions that no index has.
func listedBy(filter ledger.RunFilter) ledger.RunFilter {
	filter.Text, filter.Failure, filter.Operation = "", "", ""
	if filter.Script != "" || filter.Deployment != "" {
		filter.Signer = ""
	}
	return filter
}

// andFound adds the conditions that listedBy removes.
func andFound(q *query, filter ledger.RunFilter) {
	if filter.Script != "" || filter.Deployment != "" {
		andIs(q, "signer", filter.Signer)
	}
	if filter.Text != "" {
		andText(q, filter.Text)
	}
	andFailure(q, filter)
}

// examined is a query for the columns of andFound.
const examined = "SELECT id, created, project, state, signer, failure, failed_operation, words, parameters FROM runs"

// selectFound builds the query for columns of the runs that a search finds among the first `most` runs of a page of a
// part.
func selectFound(columns string, part, filter ledger.RunFilter, p ledger.Page, most int) (*query, error) {
	q := selectFrom("SELECT " + columns + " FROM (")
	err := listPart(q, examined, part, p, most)
	q.add(") AS examined")
	q.where = false
	andFound(q, filter)
	return q, err
}

// countFound counts the runs that a search finds among the newest `most` runs, about equally many of each part of the
// filter.
func countFound(ctx context.Context, db *sqldb.DB, filter ledger.RunFilter, most int) (ledger.RunCounts, error) {
	counts := ledger.RunCounts{}
	parts := partsOf(listedBy(filter))
	for _, part := range parts {
		q, err := selectFound("project, state, COUNT(*)", part, filter, ledger.Page{}, max(most/len(parts), 1))
		if err != nil {
			return nil, err
		}
		q.add("\nGROUP BY project, state")
		if err := addCounts(ctx, db, counts, q); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// place is a place in a list of runs.
type place struct {
	created int64
	id      string
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.created, other.created), cmp.Compare(p.id, other.id))
}

// search finds the runs of a page, and one more if there is one. It reads at most `most` runs, about equally many of each
// part of the filter. end is the place of the last run that it has read, or nil if it has read all.
func search(
	ctx context.Context, db *sqldb.DB, filter ledger.RunFilter, p ledger.Page, most int,
) (found []place, end *place, err error) {
	order := func(a, b place) int {
		if filter.Oldest {
			return a.compare(b)
		}
		return b.compare(a)
	}
	parts := partsOf(listedBy(filter))
	for _, part := range parts {
		places, last, err := searchPart(ctx, db, part, filter, p, max(most/len(parts), 1))
		if err != nil {
			return nil, nil, err
		}
		found = append(found, places...)
		if last != nil && (end == nil || order(*last, *end) < 0) {
			end = last
		}
	}
	slices.SortFunc(found, order)
	if end != nil { // other parts have read further; the next page starts here
		found = slices.DeleteFunc(found, func(one place) bool { return order(one, *end) > 0 })
	}
	if len(found) > limit(p) {
		return found[:limit(p)+1], nil, nil
	}
	return found, end, nil
}

// searchPart is search for one part of the filter.
func searchPart(
	ctx context.Context, db *sqldb.DB, part, filter ledger.RunFilter, p ledger.Page, most int,
) (places []place, end *place, err error) {
	read := func(row scanner) (one place, err error) {
		err = row.Scan(&one.created, &one.id)
		return one, err
	}
	q, err := selectFound("created, id", part, filter, p, most)
	if err != nil {
		return nil, nil, err
	}
	q.add(sequenceOf(filter.Oldest)+"\nLIMIT ?", limit(p)+1)
	rows, err := db.Query(ctx, q.String(), q.args...)
	if places, err = collect(rows, err, read); err != nil || len(places) > limit(p) {
		return places, nil, err
	}
	if q, err = lastExamined(part, p, most); err != nil {
		return nil, nil, err
	}
	rows, err = db.Query(ctx, q.String(), q.args...)
	last, err := collect(rows, err, read)
	if len(last) > 0 {
		end = &last[0]
	}
	return places, end, err
}

// lastExamined builds the query for the place of the last run that a page of a search reads. No index has the column
// words, so the database reads the runs in the order of the list. Otherwise SQLite would read and sort all entries of a
// smaller index.
func lastExamined(part ledger.RunFilter, p ledger.Page, most int) (*query, error) {
	q := selectFrom("")
	err := listPart(q, "SELECT created, id FROM (SELECT created, id, words FROM runs", part, p, most)
	q.add(") AS examined WHERE words >= ''"+sequenceOf(part.Oldest)+"\nLIMIT 1 OFFSET ?", most-1)
	return q, err
}
