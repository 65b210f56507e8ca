package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/internal/yamltext"
)

// environmentMark is the annotation of a flag that names its environment variable.
const environmentMark = "writ_environment"

// FromEnvironment makes environment variables set flags: WRIT_SOME_THING sets --some-thing. It adds the variable to the
// help text.
func FromEnvironment(flags *pflag.FlagSet, names ...string) {
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

// FillFlags sets the flags that are missing on the command line. It takes their values from the environment and then,
// for a daemon, from its configuration file.
func (e *Env) FillFlags(cmd *cobra.Command) error {
	err := fillFromEnvironment(cmd.Flags())
	// If a command shadows an inherited flag, the environment variable must still set the inherited flag.
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

// IsTyped reports whether a flag was set on the command line, and not by its environment variable.
func IsTyped(f *pflag.Flag) bool {
	return f.Changed &&
		!slices.ContainsFunc(f.Annotations[environmentMark],
			func(variable string) bool { return os.Getenv(variable) == f.Value.String() })
}

// settingsFlag names the file with a daemon's flags. Daemons have no contexts, so the name does not conflict with the
// flag for contexts.
const settingsFlag = "config"

// maxSettings limits the file with a daemon's settings, in bytes.
const maxSettings = 1 << 20

// SettingsFile adds the flag for the settings file to a daemon.
func SettingsFile(cmd *cobra.Command) {
	cmd.Flags().String(settingsFlag, "", "file (YAML) with values of unset flags")
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
		return writ.Errorf(writ.CodeUsage, "the settings in %s are not names with values", path).
			WithHint("write a line for each: listen: 127.0.0.1:7440")
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		f := cmd.LocalNonPersistentFlags().Lookup(name)
		if f == nil || name == settingsFlag {
			return writ.Errorf(writ.CodeUsage, "%s: %s has no setting %q", path, cmd.CommandPath(), name).
				WithHint("%s --help", cmd.CommandPath())
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
		return nil, errors.New("has several values instead of one")
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
			return nil, errors.New("has a list or map as a value, and must have texts, numbers, true or false")
		}
	}
	return texts, nil
}
