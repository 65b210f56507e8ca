package main

import (
	"fmt"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestNoDaemonLogsASecret logs values that a user could enter by mistake, such as a token instead of a supervisor's
// address.
func TestNoDaemonLogsASecret(t *testing.T) {
	token := identity.NewToken(writ.ClusterID(strings.Repeat("ab", 32))).String()
	for _, format := range []string{"text", "json"} {
		said := new(testenv.Log)
		env := newEnv(&terminal.Terminal{Notices: terminal.Notices{Err: said}})
		log, err := cli.NewLog(env, cli.LogFlags{Level: "debug", Format: format})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("joining", "supervisor", token)
		log.Warn("cannot join yet, and try again", "err", fmt.Errorf("no address: %s", token))
		log.With("redis", "redis://:hunter2@127.0.0.1:6379").Debug("serving " + token)
		if text := said.String(); strings.Contains(text, strings.Split(token, ".")[2]) || strings.Contains(text, "hunter2") || said.Lines("not shown") != 3 {
			t.Errorf("%s:\n%s", format, text)
		}
	}
}
