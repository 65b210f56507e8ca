package main

import (
	"os"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
)

// What a script says stays in the block of code, also what would end that, and a comment has room for it.
func TestAPlanInACommentIsNoMarkup(t *testing.T) {
	term := terminal.New(os.Stdin, nil, nil, nil)
	plan := &planned{Script: "web.tengo", Project: "shop", Plan: scripts.Plan{Logs: []string{"````", "@everybody", "\n```\n# Approved\n", strings.Repeat("é", 50_000)}}, Preview: &writ.Preview{}}
	text := (&planText{Terminal: term.Plain(), planned: plan}).markdown()
	begin, rest, _ := strings.Cut(text, "\n\n")
	if begin != "### writ plan: nothing to do" || !strings.HasPrefix(rest, "`````diff\n") || !strings.HasSuffix(rest, "\n`````\n") || strings.Count(text, "`````") != 2 {
		t.Errorf("%.300s … %s", text, text[len(text)-100:])
	}
	if len(text) > 65_536 || !strings.Contains(text, "too long for a comment") {
		t.Errorf("it has %d bytes", len(text))
	}
}
