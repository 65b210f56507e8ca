package writ_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"writ"
)

func TestEveryCodeHasOneRow(t *testing.T) {
	rows := map[writ.Code]int{}
	for _, row := range writ.Codes {
		rows[row.Code]++
	}
	for name, value := range constants(t, "code.go", "Code") {
		if n := rows[writ.Code(value)]; n != 1 {
			t.Errorf("%s has %d rows in Codes, want 1", name, n)
		}
		delete(rows, writ.Code(value))
	}
	for code := range rows {
		t.Errorf("the row of %s has no constant", code)
	}
}

func TestRowsOfCodesAgreeWithTheirKind(t *testing.T) {
	upperSnake := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	exits := []int{writ.ExitFailed, writ.ExitUsage, writ.ExitDenied, writ.ExitNotFound, writ.ExitConflict, writ.ExitTimeout, writ.ExitUnreachable, writ.ExitRemoved}
	statuses := map[writ.Kind][]int{
		writ.Invalid:     {400, 405, 413, 422, 501},
		writ.Denied:      {401, 403, 421},
		writ.NotFound:    {404, 422},
		writ.Conflict:    {409},
		writ.Unavailable: {409, 422, 429, 503, 504},
		writ.Failed:      {409, 422, 502},
		writ.Internal:    {500},
	}
	for _, row := range writ.Codes {
		if !upperSnake.MatchString(string(row.Code)) {
			t.Errorf("%s is not in UPPER_SNAKE", row.Code)
		}
		if !slices.Contains(statuses[row.Kind], row.Status) {
			t.Errorf("%s: status %d does not fit kind %s", row.Code, row.Status, row.Kind)
		}
		if !slices.Contains(exits, row.Exit) {
			t.Errorf("%s: unknown exit code %d", row.Code, row.Exit)
		}
		if row.Kind == writ.Unavailable && row.Status >= 500 && !row.Retryable {
			t.Errorf("%s: clients retry after status %d, so it must be retryable", row.Code, row.Status)
		}
		if row.Retryable && (row.Kind == writ.Invalid || row.Kind == writ.NotFound || row.Kind == writ.Internal) {
			t.Errorf("%s: trying again does not help against %s", row.Code, row.Kind)
		}
		if !strings.HasSuffix(row.Explain(), ".") || strings.ContainsAny(row.Explain(), "\n|") {
			t.Errorf("%s: %q is not a one-line explanation", row.Code, row.Explain())
		}
	}
}

// TestExitCodesFollowFromKinds compares the exit code of each row with that of its kind. Exceptions are listed here
// with a reason.
func TestExitCodesFollowFromKinds(t *testing.T) {
	const (
		signedText = "the signed text is refused"
		ofCalls    = "calls and nodes fail by it, so a run has failed"
	)
	usual := map[writ.Kind]int{
		writ.Invalid: writ.ExitUsage, writ.Denied: writ.ExitDenied, writ.NotFound: writ.ExitNotFound, writ.Conflict: writ.ExitConflict,
		writ.Unavailable: writ.ExitUnreachable, writ.Failed: writ.ExitFailed, writ.Internal: writ.ExitFailed,
	}
	differs := map[int]map[writ.Code]string{
		writ.ExitDenied: {
			writ.CodePayloadMalformed: signedText, writ.CodeFormatTooOld: signedText, writ.CodeSignatureMalformed: signedText, writ.CodeEngineUnsupported: signedText,
		},
		writ.ExitNotFound: {writ.CodeProjectUnknown: "it is a name that was typed, as that of a datacenter is"},
		writ.ExitTimeout:  {writ.CodeTimeout: "the work goes on", writ.CodeNotAdopted: "the roster is in force"},
		writ.ExitRemoved:  {writ.CodeNodeRejected: "to start the node again is of no use", writ.CodeUnverified: "it is not known what happened"},
		writ.ExitFailed: {
			writ.CodeVerbUnsupported:  "the supervisor has to be upgraded: the command was right",
			writ.CodeArgumentsInvalid: ofCalls, writ.CodeResourceUnknown: ofCalls, writ.CodeResourceConflict: ofCalls, writ.CodeResourceBusy: ofCalls,
			writ.CodeImmutableField: ofCalls, writ.CodeNotOwner: ofCalls, writ.CodeDriverMissing: ofCalls, writ.CodeNoCapacity: ofCalls, writ.CodeDiskFull: ofCalls,
			writ.CodeInjected: ofCalls, writ.CodeNodeStore: ofCalls, writ.CodeAttemptGivenUp: ofCalls, writ.CodeClockSkew: ofCalls, writ.CodeEpochAhead: ofCalls,
			writ.CodeNodeCopied: ofCalls, writ.CodeResourceInUse: ofCalls, writ.CodePortClosed: ofCalls, writ.CodePortTaken: ofCalls, writ.CodeDeviceForbidden: ofCalls,
			writ.CodeFileTooLarge: ofCalls,
		},
	}
	reasons := 0
	for _, row := range writ.Codes {
		reason := differs[row.Exit][row.Code]
		if reason != "" {
			reasons++
		}
		if follows := row.Exit == usual[row.Kind]; follows == (reason != "") {
			t.Errorf("%s is %s and ends a command with %d; %d follows from the kind, and the reason in differs of this test is %q", row.Code, row.Kind, row.Exit, usual[row.Kind], reason)
		}
	}
	for exit, codes := range differs {
		if reasons -= len(codes); len(codes) == 0 {
			t.Errorf("no code differs to %d", exit)
		}
	}
	if reasons != 0 {
		t.Error("a code in the list has its regular exit code")
	}
}

func TestUnknownCodeCountsAsInternal(t *testing.T) {
	if got := writ.Code("NEVER_HEARD_OF").Info(); got.Code != writ.CodeInternal || got.Status != 500 {
		t.Errorf("Info = %+v", got)
	}
	if got := writ.CodeExpired.Info(); got.Code != writ.CodeExpired {
		t.Errorf("Info = %+v", got)
	}
}

// constants returns the string constants of a type by name, as its file declares them.
func constants(t testing.TB, file, typeName string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		named, ok := spec.Type.(*ast.Ident)
		literal, isLiteral := spec.Values[0].(*ast.BasicLit)
		if ok && isLiteral && named.Name == typeName {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = value
		}
		return true
	})
	if len(found) == 0 {
		t.Fatalf("%s declares no constants of %s", file, typeName)
	}
	return found
}
