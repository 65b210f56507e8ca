package terminal

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"writ"
	"writ/internal/hidden"
)

// Format is a form in which data is printed.
type Format string

// The formats.
const (
	Table Format = "table" // for people
	Wide  Format = "wide"  // the same with more columns
	JSON  Format = "json"  // the shapes of the HTTP API
	YAML  Format = "yaml"  // the same
	CSV   Format = "csv"   // the rows of a list with all columns, for spreadsheets
	Name  Format = "name"  // one name or id a line, for loops of a shell

	Markdown Format = "markdown" // a plan for a comment of a pull or merge request
)

// Formats lists all formats.
var Formats = []Format{Table, Wide, JSON, YAML, CSV, Name, Markdown}

// String, Set and Type make a Format the value of a flag.
func (f *Format) String() string { return string(*f) }

// Set takes the name of a format.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats, Format(s)) {
		return fmt.Errorf("it must be one of %s", strings.Join(FormatNames(), ", "))
	}
	*f = Format(s)
	return nil
}

// Type is what the help calls such a value.
func (f *Format) Type() string { return "format" }

// FormatNames lists the names of all formats.
func FormatNames() []string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return names
}

// View is data in each form that a person can ask for.
type View struct {
	Data  any // for JSON and YAML
	Text  func(wide bool) string
	Names []string
	Rows  [][]string // for CSV, titles first; nil of what is no list

	Markdown func() string // nil of what is no plan

	fitted func(width int) string // for a terminal; nil if Text has no bound
}

// Print writes a view in the format that was asked for.
func (t *Terminal) Print(v View) error {
	switch t.Format {
	case JSON:
		return t.PrintJSON(v.Data)
	case YAML:
		text, err := YAMLText(v.Data)
		if err != nil {
			return err
		}
		_, err = t.Out.Write(text)
		return err
	case CSV:
		return t.printCSV(v.Rows)
	case Markdown:
		if v.Markdown == nil {
			return writ.Errorf(writ.CodeUsage, "only plans can be printed as Markdown").WithHint("use -o json")
		}
		return t.PrintText(v.Markdown())
	case Name:
		for _, name := range v.Names {
			if _, err := fmt.Fprintln(t.Out, Clean(name)); err != nil {
				return err
			}
		}
		return nil
	default:
		if v.fitted != nil && t.Format == Table && t.Columns > 0 {
			return t.PrintText(v.fitted(t.Columns))
		}
		return t.PrintText(v.Text(t.Format == Wide))
	}
}

// PrintText writes text for people. It escapes unsafe characters that are still in it, except the colours of Paint.
func (t *Terminal) PrintText(text string) error {
	_, err := io.WriteString(t.Out, t.safe(text))
	return err
}

// printCSV writes rows as RFC 4180 has it, but with the line ends of the system.
func (t *Terminal) printCSV(rows [][]string) error {
	if rows == nil {
		return writ.Errorf(writ.CodeUsage, "only lists can be printed as CSV").WithHint("use -o json")
	}
	if err := csv.NewWriter(t.Out).WriteAll(rows); err != nil {
		return fmt.Errorf("print as CSV: %w", err)
	}
	return nil
}

// PrintJSON writes a value as JSON, indented.
func (t *Terminal) PrintJSON(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	if err == nil {
		_, err = t.Out.Write(harmless(text.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}

// harmless escapes the characters of a JSON text that could change the terminal or mislead a reader, and the bracket of a command to a CI system.
// All of them can only be inside strings.
func harmless(text []byte) []byte {
	return hidden.EscapeJSON(bracketed.ReplaceAll(text, []byte(`$1\u005b`)))
}

var bracketed = regexp.MustCompile(`(##[A-Za-z]*)\[`)

// Structured reports whether the output is for programs: then a command prints whole values and no running text.
func (t *Terminal) Structured() bool { return t.Format == JSON || t.Format == YAML }

// List returns the view of a list. data is what JSON and YAML show.
func List[T any](data any, items []T, name func(T) string, columns ...Column[T]) View {
	v := View{
		Data:   data,
		Text:   func(wide bool) string { return table(items, columns, wide) },
		fitted: func(width int) string { return fittedTable(items, columns, width) },
	}
	for _, item := range items {
		v.Names = append(v.Names, name(item))
	}
	v.Rows = rowsOf(items, columns)
	return v
}

// WithFooter returns the list with lines below its table.
func (v View) WithFooter(lines string) View {
	text, fitted := v.Text, v.fitted
	v.Text = func(wide bool) string { return text(wide) + lines }
	if fitted != nil {
		v.fitted = func(width int) string { return fitted(width) + lines }
	}
	return v
}

// WithLayout returns the list with another text for people. layout gets the width of the terminal, or 0 for a file or pipe.
func (v View) WithLayout(layout func(width int) string) View {
	v.Text, v.fitted = func(bool) string { return layout(0) }, layout
	return v
}

// Empty reports whether it is a list without items.
func (v View) Empty() bool { return len(v.Rows) == 1 }

// rowsOf returns the rows of a list for programs: every column, and titles that are names.
func rowsOf[T any](items []T, columns []Column[T]) [][]string {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = cmp.Or(c.Name, strings.ToLower(strings.ReplaceAll(c.Title, " ", "_")))
	}
	rows := [][]string{titles}
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			if row[i] = c.Cell(item); c.Exact != nil {
				row[i] = c.Exact(item)
			}
			row[i] = noFormula(Clean(row[i]))
		}
		rows = append(rows, row)
	}
	return rows
}

// noFormula returns a cell as a spreadsheet shows it, and does not compute it: behind an apostrophe, if it may be a formula.
func noFormula(cell string) string {
	if len(cell) < 2 || !strings.Contains("=+-@", cell[:1]) {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell
	}
	return "'" + cell
}

// Field is a line of a record.
type Field struct {
	Title string
	Value string // a field without value is left out
	Wide  bool   // only with -o wide
}

// Record returns the view of one thing, a field a line.
func Record(data any, name string, fields ...Field) View {
	return View{Data: data, Names: []string{name}, Text: func(wide bool) string { return Fields(fields, wide) }}
}

// Fields writes fields below each other.
func Fields(fields []Field, wide bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f.Value != "" && (wide || !f.Wide) {
			fmt.Fprintf(w, "%s:\t%s\n", f.Title, Clean(f.Value))
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// BadFormat is the error for a command that has no such form.
func BadFormat(f Format, possible ...string) error {
	return writ.Errorf(writ.CodeUsage, "this command does not print %s", f).WithHint("use %s", strings.Join(possible, " or "))
}

// PrintLine writes a value as one line of JSON, for streams of them.
func (t *Terminal) PrintLine(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	_, err = t.Out.Write(append(harmless(text), '\n'))
	return err
}
