package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// bannedTerms lists words that are not terms of the field. docs/architecture.md defines the terms.
var bannedTerms = []string{
	"dictionary", "doubt", "doubts", "exam", "exams", "house", "judge", "judged", "judges", "recall", "recalls", "seal", "sealed", "seals", "settle",
	"settled", "settles", "treatment", "treatments", "unjudged", "waybill", "waybills", "weather", "wedge", "wedged",
}

// bannedWords adds words that hide the actor.
var bannedWords = append([]string{"anybody", "nobody", "somebody", "whatever", "whoever"}, bannedTerms...)

// allowedSpellings lists identifiers and file names that are stored or sent in this form.
var allowedSpellings = []string{
	"docs/decisions/0019-volumes-are-fetched-with-a-waybill.md", "docs/decisions/0030-no-coordinator-puts-a-journal-in-doubt.md",
	"docs/decisions/0023-a-database-tells-nobody-the-secret-that-it-made-up.md", "runner/journal/migrations/0003_tries.sql",
}

var (
	wordOfName = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	wordOfText = regexp.MustCompile(`[A-Za-z]+`)
	hiddenName = regexp.MustCompile(`^(Test|Benchmark|Example|Fuzz)(What|Who|Nothing)(ever)?[A-Z]`)
	// shows matches the functions whose string literals are shown to people.
	shows = regexp.MustCompile(`^(Errorf|WithHint|HostError|Done|Note|(Debug|Info|Warn|Error)(Context)?)$`)
)

// bareCommand matches a command of docs/cli.md within a sentence without backquotes. A command after a colon needs no
// backquotes, and neither does a command inside another command.
func bareCommand(t *testing.T) *regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^## writ ([a-z]+)`).FindAllSubmatch(text, -1) {
		names = append(names, string(heading[1]))
	}
	if len(names) == 0 {
		t.Fatal("docs/cli.md has no commands")
	}
	return regexp.MustCompile(`[^:A-Z] writ (` + strings.Join(slices.Compact(names), "|") + `)\b`)
}

// TestNamesAndMessagesHaveWordsOfTheField checks the names of files, identifiers, the texts of errors, hints and logs,
// and comments.
func TestNamesAndMessagesHaveWordsOfTheField(t *testing.T) {
	root, bare := "../..", bareCommand(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case slices.Contains(allowedSpellings, name):
			return nil
		}
		if word := banned(d.Name(), wordOfText, bannedWords); word != "" {
			t.Errorf("%s has the word %q in its name", name, word)
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".gen.go") {
			return checkWords(t, path, name, bare)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkWords(t *testing.T, path, name string, bare *regexp.Regexp) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		if word := banned(group.Text(), wordOfText, bannedTerms); word != "" {
			t.Errorf("%s: a comment has the word %q", set.Position(group.Pos()), word)
		}
	}
	test := strings.HasSuffix(name, "_test.go")
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if word := banned(n.Name, wordOfName, bannedWords); word != "" && !slices.Contains(allowedSpellings, n.Name) {
				t.Errorf("%s: %s has the word %q", set.Position(n.Pos()), n.Name, word)
			}
		case *ast.FuncDecl:
			if test && hiddenName.MatchString(n.Name.Name) {
				t.Errorf("%s: %s does not begin with its subject", set.Position(n.Pos()), n.Name.Name)
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && !test && shows.MatchString(called.Sel.Name) {
				for _, arg := range n.Args {
					lit, ok := arg.(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						continue
					}
					message, err := strconv.Unquote(lit.Value)
					if word := banned(message, wordOfText, bannedWords); err == nil && word != "" {
						t.Errorf("%s: the message %q has the word %q", set.Position(lit.Pos()), message, word)
					}
					if called.Sel.Name == "WithHint" && bare.MatchString(message) {
						t.Errorf("%s: the hint %q has a command without backquotes", set.Position(lit.Pos()), message)
					}
				}
			}
		}
		return true
	})
	return nil
}

// banned returns the first word of a name or text that is in a list, or "".
func banned(text string, words *regexp.Regexp, list []string) string {
	for _, word := range words.FindAllString(text, -1) {
		if word = strings.ToLower(word); slices.Contains(list, word) {
			return word
		}
	}
	return ""
}
