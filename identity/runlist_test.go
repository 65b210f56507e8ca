package identity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/sshsig"
)

func TestStatementNamesEachOfItsRuns(t *testing.T) {
	for _, resume := range []bool{false, true} {
		want := testRuns(resume)
		s := testStatement()
		want.Statement(s)
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		read, err := ParseStatement(text)
		if err != nil {
			t.Fatal(err)
		}
		have, err := ParseRunList(read)
		slices.SortFunc(want.Runs, func(a, b SeenOfRun) int { return strings.Compare(string(a.Run), string(b.Run)) })
		if diff := cmp.Diff(want, have); diff != "" || err != nil {
			t.Errorf("%v, %s", err, diff)
		}
		if seen := have.Seen(have.Runs[0]); seen.Name != "web.tengo" || seen.Project != shopID || (seen.Revision != 0) != resume {
			t.Errorf("seen %+v", seen)
		}
		if v, err := testVerifier(t).Statement(signText(t, testSigner("bob"), sshsig.StatementNamespace, func() *Statement { s.Signer = "bob"; return s }())); err != nil || v.Project != shopID {
			t.Errorf("%v", err)
		}
	}
}

func TestRunListHasOneForm(t *testing.T) {
	run := func(i byte) string { return string(writ.RunIDOf(writ.Digest{i})) }
	two := []string{run(1) + " a.tengo", run(2) + " b.tengo"}
	slices.Sort(two)
	many := make([]any, MaxRuns+1)
	for i := range many {
		many[i] = string(writ.RunIDOf(writ.Digest{byte(i), 9})) + " a.tengo"
	}
	slices.SortFunc(many, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	for name, tt := range map[string]struct {
		resume bool
		params map[string]any
	}{
		"no runs":              {params: map[string]any{"runs": []any{}}},
		"no list":              {params: map[string]any{"runs": two[0]}},
		"another parameter":    {params: map[string]any{"runs": []any{two[0]}, "x": "y"}},
		"a filter":             {params: map[string]any{"filter": "all"}},
		"too many":             {params: map[string]any{"runs": many}},
		"another order":        {params: map[string]any{"runs": []any{two[1], two[0]}}},
		"twice":                {params: map[string]any{"runs": []any{two[0], two[0]}}},
		"no id":                {params: map[string]any{"runs": []any{"@last a.tengo"}}},
		"no script":            {params: map[string]any{"runs": []any{run(1)}}},
		"an odd script":        {params: map[string]any{"runs": []any{run(1) + " a;b"}}},
		"an end of a cancel":   {params: map[string]any{"runs": []any{run(1) + " a.tengo 7"}}},
		"no end of a resume":   {resume: true, params: map[string]any{"runs": []any{run(1) + " a.tengo"}}},
		"a zero end":           {resume: true, params: map[string]any{"runs": []any{run(1) + " a.tengo 0"}}},
		"an end in other form": {resume: true, params: map[string]any{"runs": []any{run(1) + " a.tengo 07"}}},
	} {
		s := testStatement()
		testRuns(tt.resume).Statement(s)
		s.Params = tt.params
		_, err := s.Text()
		if writ.CodeOf(err) != writ.CodePayloadMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := testStatement()
	testRuns(false).Statement(s)
	s.Subject = "project/" + string(mailID)
	if _, err := s.Text(); writ.CodeOf(err) != writ.CodePayloadMalformed {
		t.Errorf("the subject is another project: %v", err)
	}
	testRuns(true).Statement(s)
	if ended := SawRun("x", "y", true, noon.Add(time.Second)).Ended; ended != noon.Add(time.Second).UnixMicro() {
		t.Errorf("it ended at %d", ended)
	}
}
