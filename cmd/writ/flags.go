package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/redact"
	"writ/internal/yamltext"
)

// environmentMark is the annotation of a flag that names its environment variable.
const environmentMark = "writ_environment"

// fromEnvironment makes environment variables set flags: WRIT_SOME_THING sets --some-thing. It adds the variable to the
// help text.
func fromEnvironment(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		if f == nil {
			panic("no flag " + name) // a bug in this program
		}
		variable := "WRIT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		f.Usage += " ($" + variable + ")"
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[environmentMark] = []string{variable}
	}
}

// fillFlags sets the flags that the command line does not set from the environment. A daemon then sets the remaining
// ones from its configuration file.
func (e *Env) fillFlags(cmd *cobra.Command) error {
	err := fillFromEnvironment(cmd.Flags())
	// If a command shadows an inherited flag, the inherited one still has its environment variable.
	if err == nil {
		err = fillFromEnvironment(cmd.PersistentFlags())
	}
	cmd.VisitParents(func(parent *cobra.Command) {
		if err == nil {
			err = fillFromEnvironment(parent.PersistentFlags())
		}
	})
	if err != nil {
		return err
	}
	if file := cmd.LocalNonPersistentFlags().Lookup(settingsFlag); file != nil && file.Value.String() != "" {
		return e.fillFromFile(cmd, file.Value.String())
	}
	return nil
}

func fillFromEnvironment(flags *pflag.FlagSet) (failed error) {
	flags.VisitAll(func(f *pflag.Flag) {
		variable := f.Annotations[environmentMark]
		if f.Changed || len(variable) == 0 || failed != nil {
			return
		}
		value := os.Getenv(variable[0])
		if value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = notTyped("the environment variable "+variable[0], f, err)
		}
	})
	return failed
}

// typed reports whether a flag was set on the command line, and not by its environment variable.
func typed(f *pflag.Flag) bool {
	return f.Changed && !slices.ContainsFunc(f.Annotations[environmentMark], func(variable string) bool { return os.Getenv(variable) == f.Value.String() })
}

// settingsFlag names the file with a daemon's flags. Daemons have no contexts, so the name does not conflict with the
// flag for contexts.
const settingsFlag = "config"

// maxSettings limits the file with a daemon's settings, in bytes.
const maxSettings = 1 << 20

// settingsFile adds the flag for the settings file to a daemon.
func settingsFile(cmd *cobra.Command) {
	cmd.Flags().String(settingsFlag, "", "file (YAML) with the values of flags that are not given")
}

// fillFromFile sets the flags that are still unset from a YAML file. The keys are the names of the flags.
func (e *Env) fillFromFile(cmd *cobra.Command, path string) error {
	text, err := e.ReadFile(path, maxSettings)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot read the settings: %w", err)
	}
	if len(text) > maxSettings {
		return writ.Errorf(writ.CodeUsage, "the settings in %s have more than %d KiB", path, maxSettings>>10)
	}
	read, err := yamltext.Read(text)
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "the settings in %s cannot be read: %v", path, err)
	}
	settings, ok := read.(map[string]any)
	if !ok && read != nil {
		return writ.Errorf(writ.CodeUsage, "the settings in %s are not names with values", path).WithHint("write a line for each: listen: 127.0.0.1:7440")
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		f := cmd.LocalNonPersistentFlags().Lookup(name)
		if f == nil || name == settingsFlag {
			return writ.Errorf(writ.CodeUsage, "%s: %s has no setting %q", path, cmd.CommandPath(), name).WithHint("%s --help", cmd.CommandPath())
		}
		if f.Changed {
			continue
		}
		values, err := settingValues(f, value)
		if err != nil {
			return writ.Errorf(writ.CodeUsage, "%s: %s %v", path, name, err).WithHint("--%s: %s", name, f.Usage)
		}
		for _, v := range values {
			if err := cmd.Flags().Set(name, v); err != nil {
				return notTyped(path+": "+name, f, err)
			}
		}
	}
	return nil
}

// notTyped returns the error for an invalid flag value from another source than the command line.
func notTyped(from string, f *pflag.Flag, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalid.Unwrap()
	}
	said, hint := strings.TrimPrefix(err.Error(), "--"+f.Name+": "), "--"+f.Name+": "+f.Usage
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		said = unparsed(f, number)
	}
	if of, ok := errors.AsType[*writ.Error](err); ok && of.Hint != "" {
		hint = of.Hint
	}
	return writ.Errorf(writ.CodeUsage, "%s: %s", from, said).WithHint("%s", hint)
}

// settingValues converts the value of a setting to the texts that a user would type for the flag.
func settingValues(f *pflag.Flag, value any) (texts []string, err error) {
	all, isList := value.([]any)
	if _, takesMany := f.Value.(pflag.SliceValue); isList && !takesMany && f.Value.Type() != "stringToInt" {
		return nil, errors.New("has several values, and takes one")
	}
	if !isList {
		all = []any{value}
	}
	for _, v := range all {
		switch v := v.(type) {
		case nil:
			return nil, errors.New("has no value")
		case string, bool, json.Number:
			texts = append(texts, fmt.Sprint(v))
		default:
			return nil, errors.New("has values with parts, and takes texts, numbers, true and false")
		}
	}
	return texts, nil
}

// reasonFlag is the reason for a decision. It is signed and stored permanently, so it must be one line of text without
// secrets.
type reasonFlag string

// add adds the flag. shownBy names the command that shows the reason. The log of the supervisor has every reason.
func (r *reasonFlag) add(c *cobra.Command, shownBy string) {
	help := "one line, which the supervisor logs"
	if shownBy != "" {
		help = "one line, which " + shownBy + " and the log of the supervisor have"
	}
	c.Flags().Var(r, "reason", help)
}

// Type implements pflag.Value.
func (r *reasonFlag) Type() string { return "string" }

func (r *reasonFlag) String() string { return string(*r) }

// Set rejects a reason that cannot be signed, or that must not be signed because it contains a secret.
func (r *reasonFlag) Set(reason string) error {
	if reason == "-" || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return writ.Errorf(writ.CodeUsage, "--reason %q cannot be signed", reason).
			WithHint("give one line of text, without control characters, which is not a lone hyphen")
	}
	if redact.Holds(reason) {
		return holdsSecret("--reason")
	}
	*r = reasonFlag(reason)
	return nil
}

// holdsSecret returns the error for a secret in a field that other users can read.
func holdsSecret(what string) error {
	return writ.Errorf(writ.CodeUsage, "%s holds a private key, a token or a password, and others can read it for ever", what).
		WithHint("leave it out; `writ secret set NAME` keeps one for scripts, encrypted to the supervisor")
}

// pairs parses "name=value" words into a map. Values that contain a secret are rejected.
func pairs(words []string, what string) (map[string]string, error) {
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
			return nil, holdsSecret(what)
		}
		m[name] = value
	}
	return m, nil
}

// checkLabels rejects labels that are invalid for a datacenter.
func checkLabels(labels map[string]string, flag string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !writ.ValidLabel(name, labels[name]) {
			return writ.Errorf(writ.CodeUsage, "%s %s=%s is not a label that a datacenter can have", flag, name, labels[name]).
				WithHint("write tier=edge: names have lower-case letters, digits and hyphens, values up to 63 letters, digits and . _ / -")
		}
	}
	return nil
}

// moduleFlags hold the user's modules that are not in the directory of the script. Every command that reads scripts has
// these flags.
type moduleFlags struct{ words []string }

func (m *moduleFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&m.words, "module", nil, "module of your own as NAME=FILE, for import(\"NAME\"); others are looked for beside the script (repeatable)")
}

func (m *moduleFlags) modules() (client.Modules, error) { return client.ParseModules(m.words) }
