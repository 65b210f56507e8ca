package ratchet

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of every package without an allowance.
const (
	maxFiles     = 25 // Go files
	maxMethods   = 15 // methods of a type
	maxWide      = 1  // lines over 120 columns in 100 lines
	maxComments  = 3  // marked constructions in 1,000 words
	maxMessages  = 2
	maxDocuments = 3
	// minMarked and minWide are the counts that every package may have, regardless of its size.
	minMarked = 2
	minWide   = 2
)

// Excess is a figure above its limit.
type Excess struct {
	Where  string // directory, or "directory.Type" for methods
	Figure string // "files", "methods", "wide", "comments", "messages" or "documents"
	Value  int
}

func (e Excess) key() string { return e.Where + " " + e.Figure }

func (e Excess) String() string { return fmt.Sprintf("%s %s %d", e.Where, e.Figure, e.Value) }

// Excesses returns the figures above their limits, in order.
func Excesses(all map[string]*Figures) []Excess {
	var out []Excess
	add := func(where, figure string, value, limit int) {
		if value > limit {
			out = append(out, Excess{where, figure, value})
		}
	}
	prose := func(where, figure string, p Prose, limit int) {
		add(where, figure, p.Marked, max(minMarked, p.Words*limit/1000))
	}
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		f := all[folder]
		add(folder, "files", f.Files, maxFiles)
		add(folder, "wide", f.Wide, max(minWide, f.Lines*maxWide/100))
		prose(folder, "comments", f.Comments, maxComments)
		prose(folder, "messages", f.Messages, maxMessages)
		prose(folder, "documents", f.Documents, maxDocuments)
		for _, name := range slices.Sorted(maps.Keys(f.Methods)) {
			add(folder+"."+name, "methods", f.Methods[name], maxMethods)
		}
	}
	return out
}

// ReadAllowances reads lines of the form "WHERE FIGURE VALUE", as Excess.String writes them. Empty lines and lines
// that begin with # are skipped.
func ReadAllowances(r io.Reader) ([]Excess, error) {
	var out []Excess
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("allowance %q: want WHERE FIGURE VALUE", line)
		}
		value, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, fmt.Errorf("allowance %q: %w", line, err)
		}
		out = append(out, Excess{words[0], words[1], value})
	}
	return out, lines.Err()
}

// Compare returns a sentence for each figure above its allowance, and for each allowance above its figure.
func Compare(excesses, allowances []Excess) []string {
	allowed := map[string]int{}
	for _, a := range allowances {
		allowed[a.key()] = a.Value
	}
	var out []string
	for _, e := range excesses {
		limit, ok := allowed[e.key()]
		delete(allowed, e.key())
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s: %s are above their limit: %d", e.Where, e.Figure, e.Value))
		case e.Value > limit:
			out = append(out, fmt.Sprintf("%s: %s rose from %d to %d", e.Where, e.Figure, limit, e.Value))
		case e.Value < limit:
			out = append(out, fmt.Sprintf("%s: %s fell from %d to %d: lower the allowance", e.Where, e.Figure, limit, e.Value))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		out = append(out, key+": the allowance is not needed any more: remove it")
	}
	return out
}

// Lower returns the allowances that are still needed, lowered to their figures. It neither raises nor adds an
// allowance.
func Lower(excesses, allowances []Excess) []Excess {
	values := map[string]int{}
	for _, e := range excesses {
		values[e.key()] = e.Value
	}
	var out []Excess
	for _, a := range allowances {
		if value, ok := values[a.key()]; ok {
			a.Value = min(a.Value, value)
			out = append(out, a)
		}
	}
	return out
}

// Format writes allowances as a file with the comment lines of the text `before`.
func Format(before string, allowances []Excess) string {
	var b strings.Builder
	for line := range strings.Lines(before) {
		if strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	for _, a := range allowances {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}
