// Command testreport summarises a test run: failures with their last output and the command that repeats them, flaky
// tests, and the slowest packages. It reads a file with the events of `go test -json`, as written by `gotestsum
// --jsonfile`.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	skipped := flag.Bool("skipped", false, "list the skipped tests by reason")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: testreport [-skipped] FILE")
		os.Exit(2)
	}
	f, err := os.Open(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport: read", flag.Arg(0)+":", err)
		os.Exit(2)
	}
	if *skipped {
		r.skips.write(os.Stdout)
	}
	r.write(os.Stdout)
}

// event holds the used fields of a line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string  // "" for an event of the package
	Elapsed float64 // in seconds
	Output  string
}

// test is a test without its subtests, or the output of a package outside tests.
type test struct {
	Package, Name string

	ended  string   // the last action that ended it
	failed bool     // at least once
	output []string // the last lines
	points []string // lines that name a place in a test file: failed assertions
}

// report holds the results of a run.
type report struct {
	tests    []*test
	packages map[string]float64 // seconds, summed over all runs
	ran      int
	skipped  int
	skips    skips // includes subtests
}

// read parses the events of a run and of its repetitions of failed tests.
func read(from io.Reader) (*report, error) {
	r := &report{packages: map[string]float64{}, skips: skips{}}
	known := map[string]*test{}
	said := map[string][]string{} // output of running tests and subtests
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		if e.Package == "" {
			continue // an event of a build
		}
		name, _, sub := strings.Cut(e.Test, "/")
		t := known[e.Package+" "+name]
		if t == nil {
			t = &test{Package: e.Package, Name: name}
			known[e.Package+" "+name] = t
			r.tests = append(r.tests, t)
		}
		running := e.Package + " " + e.Test
		if e.Action == "skip" && e.Test != "" {
			r.skips.add(running, said[running])
		}
		switch e.Action {
		case "output":
			t.say(e.Output)
			said[running] = append(said[running], e.Output)
		case "pass", "fail", "skip":
			delete(said, running)
			if name == "" {
				r.packages[e.Package] += e.Elapsed
			}
			if sub {
				continue
			}
			t.ended = e.Action
			t.failed = t.failed || e.Action == "fail"
			if e.Action != "fail" {
				t.output, t.points = nil, nil
			}
		}
	}
	for _, t := range r.tests {
		switch {
		case t.Name == "":
		case t.ended == "skip":
			r.skipped++
		default:
			r.ran++
		}
	}
	return r, lines.Err()
}

// keptLines limits the stored output of a test, from its end. keptPoints limits the stored assertions, from the
// beginning: they could be lost before the last output of processes, which may be long.
const (
	keptLines  = 40
	keptPoints = 12
)

var asserted = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

func (t *test) say(text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" || strings.HasPrefix(text, "=== ") || text == "FAIL" {
		return
	}
	if asserted.MatchString(text) && len(t.points) < keptPoints {
		t.points = append(t.points, text)
	}
	t.output = append(t.output, text)
	if len(t.output) > keptLines {
		t.output = t.output[len(t.output)-keptLines:]
	}
}

// failures returns the tests whose last run failed, and packages that failed without a failed test. A test that never
// ended counts as failed, unless another test of its package failed: then it was cut off.
func (r *report) failures() (all []*test, cut []string) {
	failed := map[string]bool{} // packages with a failed test
	for _, t := range r.tests {
		failed[t.Package] = failed[t.Package] || t.Name != "" && t.ended == "fail"
	}
	for _, t := range r.tests {
		switch {
		case t.Name == "" || t.ended != "fail" && t.ended != "":
		case t.ended == "" && failed[t.Package]:
			cut = append(cut, t.Name)
		default:
			all = append(all, t)
		}
	}
	for _, t := range r.tests {
		if t.Name == "" && t.ended == "fail" && !slices.ContainsFunc(all, func(f *test) bool { return f.Package == t.Package }) && !r.flakyIn(t.Package) {
			all = append(all, t)
		}
	}
	return all, cut
}

func (r *report) flaky() []*test {
	return slices.DeleteFunc(slices.Clone(r.tests), func(t *test) bool { return t.Name == "" || !t.failed || t.ended != "pass" })
}

func (r *report) flakyIn(pkg string) bool {
	return slices.ContainsFunc(r.flaky(), func(t *test) bool { return t.Package == pkg })
}

// shownLines is the total number of output lines shown for all failures.
const shownLines = 45

const slowest = 10

func (r *report) write(w io.Writer) {
	type row struct {
		name    string
		seconds float64
	}
	var rows []row
	for name, seconds := range r.packages {
		rows = append(rows, row{name, seconds})
	}
	slices.SortFunc(rows, func(a, b row) int { return int(1000 * (b.seconds - a.seconds)) })
	fmt.Fprintln(w, "slowest packages, seconds:")
	for _, row := range rows[:min(slowest, len(rows))] {
		fmt.Fprintf(w, "%8.1f  %s\n", row.seconds, row.name)
	}
	fmt.Fprintf(w, "%d tests ran, %d were skipped\n", r.ran, r.skipped)
	for _, t := range r.flaky() {
		fmt.Fprintf(w, "FLAKY: %s %s failed and then passed; add it to docs/flakes.md\n", t.Package, t.Name)
	}
	failures, cut := r.failures()
	for _, t := range failures {
		repeat := "go test -count=1 " + t.Package
		if t.Name != "" {
			repeat += " -run '^" + t.Name + "$'"
		}
		fmt.Fprintf(w, "\nFAILED: %s %s\n", t.Package, t.Name)
		for _, line := range t.points {
			if !slices.Contains(t.output, line) {
				fmt.Fprintln(w, "   ", line)
			}
		}
		for _, line := range t.output[max(0, len(t.output)-max(3, shownLines/len(failures)-3)):] {
			fmt.Fprintln(w, "   ", line)
		}
		fmt.Fprintln(w, "    repeat it:", repeat)
	}
	if len(cut) > 0 {
		fmt.Fprintf(w, "\n%d tests did not end because their package stopped: %s\n", len(cut), strings.Join(cut, " "))
	}
}
