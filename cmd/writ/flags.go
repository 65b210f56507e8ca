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

// fromEnvironment lets flags be given as environment variables too: --some-thing as WRIT_SOME_THING. The help says so.
func fromEnvironment(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		if f == nil {
			panic("no flag " + name) // a mistake in this program
		}
		variable := "WRIT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		f.Usage += " ($" + variable + ")"
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[environmentMark] = []string{variable}
	}
}

// fillFlags gives the flags that the command line does not set the values of the environment, and a daemon's then those of its
// configuration file.
func (a *app) fillFlags(cmd *cobra.Command) error {
	err := fillFromEnvironment(cmd.Flags())
	// A command may shadow an inherited flag by one of its own; the inherited one still has its environment variable.
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
		return a.fillFromFile(cmd, file.Value.String())
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

// typed reports whether a flag was given on the command line, and not by its environment variable.
func typed(f *pflag.Flag) bool {
	return f.Changed && !slices.ContainsFunc(f.Annotations[environmentMark], func(variable string) bool { return os.Getenv(variable) == f.Value.String() })
}

// settingsFlag names the file with a daemon's flags. Daemons have no contexts, so the name is free there.
const settingsFlag = "config"

// maxSettings bounds the file with a daemon's settings, in bytes.
const maxSettings = 1 << 20

// settingsFile adds the flag to a daemon.
func settingsFile(cmd *cobra.Command) {
	cmd.Flags().String(settingsFlag, "", "file (YAML) with the values of flags that are not given")
}

// fillFromFile sets the flags that nobody has set from a YAML file whose keys are their names.
func (a *app) fillFromFile(cmd *cobra.Command, path string) error {
	text, err := a.ReadFile(path, maxSettings)
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

// notTyped is the error for the value of a flag that comes from somewhere else than the command line.
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

// settingValues are the values of a setting as a person would type them for a flag.
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

// reasonFlag is why somebody decides so. It is signed and kept for ever, so it is one line of text that holds no secret.
type reasonFlag string

// add adds the flag. Some decisions are shown by a command, all are in the log of the supervisor.
func (r *reasonFlag) add(c *cobra.Command, shownBy string) {
	help := "one line, which the supervisor logs"
	if shownBy != "" {
		help = "one line, which " + shownBy + " and the log of the supervisor have"
	}
	c.Flags().Var(r, "reason", help)
}

// Type is that of a text.
func (r *reasonFlag) Type() string { return "string" }

func (r *reasonFlag) String() string { return string(*r) }

// Set refuses what cannot be signed, and what must not be.
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

// holdsSecret is the error for a secret in something that others read.
func holdsSecret(what string) error {
	return writ.Errorf(writ.CodeUsage, "%s holds a private key, a token or a password, and others can read it for ever", what).
		WithHint("leave it out; `writ secret set NAME` keeps one for scripts, encrypted to the supervisor")
}

// pairs reads "name=value" words into a map. None may hold a secret.
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

// checkLabels refuses labels that no datacenter can have.
func checkLabels(labels map[string]string, flag string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if !writ.ValidLabel(name, labels[name]) {
			return writ.Errorf(writ.CodeUsage, "%s %s=%s is not a label that a datacenter can have", flag, name, labels[name]).
				WithHint("write tier=edge: names have lower-case letters, digits and hyphens, values up to 63 letters, digits and . _ / -")
		}
	}
	return nil
}

// moduleFlags are the modules of an author's own that are not beside the script; every command that reads scripts takes them.
type moduleFlags struct{ words []string }

func (m *moduleFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&m.words, "module", nil, "module of your own as NAME=FILE, for import(\"NAME\"); others are looked for beside the script (repeatable)")
}

func (m *moduleFlags) modules() (client.Modules, error) { return client.ParseModules(m.words) }
