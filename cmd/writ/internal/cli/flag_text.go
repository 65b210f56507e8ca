package cli

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/redact"
)

// ReasonFlag is the reason for a decision. It is signed and stored permanently, so it must be one line of text without
// secrets.
type ReasonFlag string

// Add adds the flag. shownBy names the command that shows the reason. The log of the supervisor has every reason.
func (r *ReasonFlag) Add(c *cobra.Command, shownBy string) {
	help := "one line for the log of the supervisor"
	if shownBy != "" {
		help = "one line, shown by " + shownBy + " and in the log of the supervisor"
	}
	c.Flags().Var(r, "reason", help)
}

// Type implements pflag.Value.
func (r *ReasonFlag) Type() string { return "string" }

func (r *ReasonFlag) String() string { return string(*r) }

// Set rejects a reason that cannot be signed, or that must not be signed because it contains a secret.
func (r *ReasonFlag) Set(reason string) error {
	if reason == "-" || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return writ.Errorf(writ.CodeUsage, "--reason %q cannot be signed", reason).
			WithHint("give one line of text without control characters; a hyphen alone is not enough")
	}
	if redact.Holds(reason) {
		return HoldsSecret("--reason")
	}
	*r = ReasonFlag(reason)
	return nil
}

// HoldsSecret returns the error for a secret in a field that other users can read.
func HoldsSecret(what string) error {
	return writ.Errorf(writ.CodeUsage, "%s contains a private key, a token or a password, and other people could read it permanently",
		what).
		WithHint("remove it; `writ secret set NAME` stores a secret for scripts, encrypted to the supervisor")
}

// Pairs parses "name=value" words into a map. Values that contain a secret are rejected.
func Pairs(words []string, what string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(words))
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			return nil, writ.Errorf(writ.CodeUsage, "%s %q is not of the form name=value", what, w).
				WithHint("write the name, an equals sign and the value, without spaces")
		}
		if _, twice := m[name]; twice {
			return nil, writ.Errorf(writ.CodeUsage, "%s %q is given twice", what, name).WithHint("leave one of them out")
		}
		if redact.Holds(w) {
			return nil, HoldsSecret(what)
		}
		m[name] = value
	}
	return m, nil
}

// CheckLabels rejects labels that are invalid for a datacenter.
func CheckLabels(labels map[string]string, flag string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !writ.ValidLabel(name, labels[name]) {
			return writ.Errorf(writ.CodeUsage, "%s %s=%s is not a label that a datacenter can have", flag, name, labels[name]).
				WithHint("write tier=edge: names have lower-case letters, digits and hyphens, values up to 63 letters, digits and . _ / -")
		}
	}
	return nil
}

// ModuleFlags hold the user's modules that are not in the directory of the script. Every command that reads scripts has
// these flags.
type ModuleFlags struct{ Words []string }

// Add adds the flag to a command.
func (m *ModuleFlags) Add(c *cobra.Command) {
	c.Flags().StringArrayVar(&m.Words, "module", nil,
		"your own module as NAME=FILE, for import(\"NAME\"); "+
			"other modules are searched for next to the script (repeatable)")
}

// Modules returns the modules that the flag names.
func (m *ModuleFlags) Modules() (client.Modules, error) { return client.ParseModules(m.Words) }
