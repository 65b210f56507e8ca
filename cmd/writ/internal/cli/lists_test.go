package cli

import (
	"bytes"
	"testing"

	"writ"
	"writ/cmd/writ/internal/terminal"
)

// An empty list would mean no items, and exit code 0 would mean that all datacenters answered.
//
// Promise: Terminals and output: A list collected from datacenters fails if all of them are unreachable and warns if
// some are.
// How: One function collects the answers.
// Also: TestScripts/refused.
func TestAListThatNoDatacenterAnsweredFails(t *testing.T) {
	untrue := writ.Errorf(writ.CodeUnverified, "dc cannot be asked: you may not").WithHint("ask")
	denied, away := writ.Errorf(writ.CodeRoleMissing, "you may not").WithHint("ask"), writ.Errorf(writ.CodeDatacenterAway, "no link")
	for _, tt := range []struct {
		owners  []*writ.Error
		rest    int
		want    writ.Code
		warning string
	}{
		{nil, 0, "", ""},
		{[]*writ.Error{nil, nil}, 2, "", ""},
		{[]*writ.Error{denied, nil, away}, 1, "", "warning: dc cannot be asked: you may not\nwarning: dc cannot be asked: no link\n"},
		{[]*writ.Error{denied}, 0, writ.CodeRoleMissing, ""},
		{[]*writ.Error{untrue, nil, away}, 1, writ.CodeUnverified, "warning: dc cannot be asked: no link\n"},
		{[]*writ.Error{away, untrue}, 0, writ.CodeUnverified, "warning: dc cannot be asked: no link\n"},
		{[]*writ.Error{denied, away}, 0, writ.CodeRoleMissing, "warning: dc cannot be asked: no link\n"},
	} {
		var said bytes.Buffer
		env := &Env{Terminal: &terminal.Terminal{Notices: terminal.Notices{Err: &said}}}
		rest, err := Answered(env, tt.owners, func(err *writ.Error) (string, *writ.Error) { return "dc", err })
		if len(rest) != tt.rest || writ.CodeOf(err) != tt.want || said.String() != tt.warning {
			t.Errorf("%v: %v, %v, %q", tt.owners, rest, err, said.String())
		}
		if err != nil && (err.Error() != "dc cannot be asked: you may not" || writ.AsError(err).Hint != "ask") {
			t.Errorf("%v: %v", tt.owners, err)
		}
	}
	if denied.Message != "you may not" {
		t.Errorf("the answer was changed: %v", denied)
	}
}
