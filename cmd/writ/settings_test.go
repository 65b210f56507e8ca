package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/cobra"

	"writ/cmd/writ/internal/terminal"
)

// suggestion matches a setting in a comment.
var suggestion = regexp.MustCompile(`(?m)^# ([a-z-]+: )`)

// The daemons can read the settings files next to the units, also with the commented suggestions applied.
func TestSettingsThatAreShippedAreSettings(t *testing.T) {
	env := newEnv(terminal.New(os.Stdin, os.Stdout, os.Stderr, nil))
	fill := func(cmd *cobra.Command, file string) error {
		return errors.Join(cmd.Flags().Set("config", file), env.FillFlags(cmd))
	}
	for name, words := range map[string][]string{"boot": {"boot", "serve"}, "coord": {"coord"}, "supervisor": {"supervisor"}, "runner": {"runner"}} {
		cmd, _, err := newRoot(env).Find(words)
		if err != nil {
			t.Fatal(err)
		}
		shipped := filepath.Join("../../deploy/systemd", name+".yaml")
		if err := fill(cmd, shipped); err != nil {
			t.Error(err)
		}
		suggested := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(suggested, []byte(suggestion.ReplaceAllString(read(t, shipped), "$1")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fill(cmd, suggested); err != nil {
			t.Error(err)
		}
	}
}
