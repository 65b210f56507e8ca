package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// testCommand is `go test FOLDER [FOLDER] … -run PATTERN`, with other flags between.
	testCommand = regexp.MustCompile("`(?:WRIT_TEST_[A-Z]+=1 )?go test ([^`]*)`")
	runPattern  = regexp.MustCompile(`-run (?:'([^']*)'|(\S+))`)
	testFunc    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// missingTests returns what the commands of a document name and the tests of their folders do not have.
func missingTests(text string, testsIn func(folder string) []string) (missing []string) {
	for _, m := range testCommand.FindAllStringSubmatch(text, -1) {
		run := runPattern.FindStringSubmatch(m[1])
		if run == nil || run[1] == "^$" {
			continue // every test, or benchmarks alone
		}
		var tests []string
		for word := range strings.FieldsSeq(m[1]) {
			if word == "." || strings.HasPrefix(word, "./") {
				tests = append(tests, testsIn(word)...)
			}
		}
		pattern := strings.ReplaceAll(run[1]+run[2], `\|`, "|")
		pattern, _, _ = strings.Cut(pattern, "/")
		for one := range strings.SplitSeq(pattern, "|") {
			found := false
			if name, err := regexp.Compile(one); err == nil {
				for _, test := range tests {
					found = found || name.MatchString(test)
				}
			}
			if !found {
				missing = append(missing, fmt.Sprintf("no test matches %s of `go test %s`", one, m[1]))
			}
		}
	}
	return missing
}

func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	known := make(map[string][]string)
	testsIn := func(name string) []string {
		if known[name] == nil {
			known[name] = []string{""}
			folder := name
			files := "*_test.go"
			if base, all := strings.CutSuffix(folder, "/..."); all {
				folder, files = base, "*/*_test.go"
			}
			found, _ := filepath.Glob(filepath.Join("..", folder, files))
			for _, file := range found {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
					known[name] = append(known[name], m[1])
				}
			}
		}
		return known[name][1:]
	}
	for _, page := range []string{"guarantees.md", "verifies.md", "../SECURITY.md", "../CONTRIBUTING.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if len(testCommand.FindAllString(string(text), -1)) == 0 {
			t.Errorf("%s names no test", page)
		}
		for _, m := range missingTests(string(text), testsIn) {
			t.Errorf("%s: %s", page, m)
		}
	}
}

func TestATestThatDoesNotExistIsFound(t *testing.T) {
	in := func(folder string) []string {
		return map[string][]string{"./a": {"TestOne"}, "./b/c": {"TestTwoThings"}}[folder]
	}
	for text, want := range map[string]int{
		"`go test ./a -run TestOne`":                              0,
		"`go test ./a -run TestTwo`":                              1,
		"`go test ./a ./b/c -run 'TestOne\\|TestTwo'`":            0,
		"`go test ./a -run 'TestOne$\\|TestTwo\\|TestThree'`":     2,
		"`go test ./b/c -count=1 -run 'TestTwoThings/one\\|two'`": 0,
		"`WRIT_TEST_LONG=1 go test ./a -run TestThree`":           1,
		"`go test ./a -run '^$' -bench One`":                      0,
		"`go test ./... -run TestTwo`":                            1,
	} {
		if got := missingTests(text, in); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
