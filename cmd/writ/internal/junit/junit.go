// Package junit writes test results as JUnit XML, the format that Jenkins, GitLab and most other CI systems read. It
// must not know the subject of the tests.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// Suite holds the tests of one file.
type Suite struct {
	Name  string
	Began time.Time
	Took  time.Duration
	Cases []Case
}

// Case is one test. It passed if Failure, Error and Skipped are all nil.
type Case struct {
	Name    string
	Class   string // group of the test, such as the path of its script; see ClassOf
	File    string // path
	Line    int    // 0 if unknown
	Took    time.Duration
	Failure *Problem // the test ran and an assertion failed
	Error   *Problem // the test could not run
	Skipped *Problem
	Output  string // text printed by the test
}

// ClassOf returns the class of a script's tests: its path with slashes and without the extension.
func ClassOf(script string) string { return strings.TrimSuffix(filepath.ToSlash(script), ".tengo") }

// Problem describes why a test did not pass.
type Problem struct {
	Message string // one line
	Text    string // full text; may be empty
}

type xmlSuites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Skipped  int      `xml:"skipped,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []xmlSuite
}

type xmlSuite struct {
	XMLName   xml.Name `xml:"testsuite"`
	Name      string   `xml:"name,attr"`
	Tests     int      `xml:"tests,attr"`
	Failures  int      `xml:"failures,attr"`
	Errors    int      `xml:"errors,attr"`
	Skipped   int      `xml:"skipped,attr"`
	Time      string   `xml:"time,attr"`
	Timestamp string   `xml:"timestamp,attr"`
	Cases     []xmlCase
}

type xmlCase struct {
	XMLName xml.Name    `xml:"testcase"`
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	File    string      `xml:"file,attr,omitempty"`
	Line    int         `xml:"line,attr,omitempty"`
	Time    string      `xml:"time,attr"`
	Failure *xmlProblem `xml:"failure"`
	Error   *xmlProblem `xml:"error"`
	Skipped *xmlProblem `xml:"skipped"`
	Output  string      `xml:"system-out,omitempty"`
}

type xmlProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Write writes suites to w as one XML document. Characters that XML does not allow are replaced by U+FFFD.
func Write(w io.Writer, name string, suites []Suite) error {
	all := xmlSuites{Name: name}
	var took time.Duration
	for _, s := range suites {
		one := suiteOf(s)
		all.Tests += one.Tests
		all.Failures += one.Failures
		all.Errors += one.Errors
		all.Skipped += one.Skipped
		took += s.Took
		all.Suites = append(all.Suites, one)
	}
	all.Time = seconds(took)
	text, err := xml.MarshalIndent(all, "", "\t")
	if err != nil {
		return fmt.Errorf("write as JUnit XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func suiteOf(s Suite) xmlSuite {
	one := xmlSuite{
		Name: s.Name, Tests: len(s.Cases), Time: seconds(s.Took), Timestamp: s.Began.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, c := range s.Cases {
		x := xmlCase{Name: c.Name, Class: c.Class, File: c.File, Line: c.Line, Time: seconds(c.Took), Output: c.Output}
		x.Failure, x.Error, x.Skipped = problemOf(c.Failure), problemOf(c.Error), problemOf(c.Skipped)
		one.Failures += count(x.Failure)
		one.Errors += count(x.Error)
		one.Skipped += count(x.Skipped)
		one.Cases = append(one.Cases, x)
	}
	return one
}

func problemOf(p *Problem) *xmlProblem {
	if p == nil {
		return nil
	}
	return &xmlProblem{p.Message, p.Text}
}

func count(p *xmlProblem) int {
	if p == nil {
		return 0
	}
	return 1
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
