package doctor

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unitDirs lists the directories of systemd's system units, by descending priority.
var unitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// examineUnits checks the units that start a runner. With most kill modes, systemd ends the processes of the node
// together with the runner.
func examineUnits(dirs []string) []finding {
	var found []finding
	for _, name := range unitNames(dirs) {
		u := readUnit(dirs, name)
		if !slices.ContainsFunc(u.starts, startsRunner) {
			continue
		}
		f := finding{Check: "unit " + name, State: healthy, Detail: "KillMode=" + u.killMode}
		if u.killMode != "process" && u.killMode != "none" {
			f.State = suspect
			f.Lost = "systemd ends machines, databases and the overlay with the runner"
			f.Fix = fmt.Sprintf("run `systemctl edit %s`, and add two lines: [Service] and KillMode=process", name)
		}
		found = append(found, f)
	}
	return found
}

// unitNames lists the services in dirs, each once.
func unitNames(dirs []string) (all []string) {
	for _, dir := range dirs {
		all = append(all, filesNamed(dir, ".service")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// filesNamed lists the names in a directory that have a suffix. It does not use a pattern, because unit names may
// contain special characters.
func filesNamed(dir, ending string) (names []string) {
	entries, _ := os.ReadDir(dir) // a missing directory is empty
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ending) {
			names = append(names, e.Name())
		}
	}
	return names
}

// unit holds the relevant settings of a service.
type unit struct {
	starts   []string // command lines of ExecStart
	killMode string
}

// readUnit reads a service as systemd does: the first file with its name, and then the drop-in files, sorted by name.
func readUnit(dirs []string, name string) unit {
	u := unit{killMode: "control-group"} // default of systemd
	var dropped []string
	main := ""
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil && main == "" {
			main = path
		}
		for _, file := range filesNamed(filepath.Join(dir, name+".d"), ".conf") {
			same := func(other string) bool { return filepath.Base(other) == file }
			if !slices.ContainsFunc(dropped, same) {
				dropped = append(dropped, filepath.Join(dir, name+".d", file))
			}
		}
	}
	slices.SortFunc(dropped, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, path := range append([]string{main}, dropped...) {
		u.read(path)
	}
	return u
}

// read applies the settings in a file. An unreadable file is ignored.
func (u *unit) read(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	section, line := "", ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(text, "#") || strings.HasPrefix(text, ";") {
			continue
		}
		if more, ok := strings.CutSuffix(text, `\`); ok {
			line += more + " "
			continue
		}
		text, line = line+text, ""
		if strings.HasPrefix(text, "[") {
			section = text
		}
		if key, value, ok := strings.Cut(text, "="); ok && section == "[Service]" {
			u.set(strings.TrimSpace(key), strings.TrimSpace(value))
		}
	}
}

// set applies a setting. An empty value resets it.
func (u *unit) set(key, value string) {
	switch {
	case key == "ExecStart" && value == "":
		u.starts = nil
	case key == "ExecStart":
		u.starts = append(u.starts, value)
	case key == "KillMode" && value == "":
		u.killMode = "control-group"
	case key == "KillMode":
		u.killMode = value
	}
}

// startsRunner reports whether a command line runs `writ runner`, directly or through another program.
func startsRunner(line string) bool {
	words := strings.Fields(line)
	i := slices.IndexFunc(words,
		func(word string) bool { return filepath.Base(strings.TrimLeft(word, "@-:+!|")) == "writ" })
	return i >= 0 && slices.Contains(words[i+1:], "runner")
}
