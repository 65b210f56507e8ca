package cloudhypervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/sal/catalog"
)

// maxVariable limits a line of /etc/environment. PAM up to 1.4 splits longer lines. Later releases drop lines of 8 KiB
// or more.
const maxVariable = 1022

// environment returns cloud-config that adds variables to /etc/environment, which pam_env reads for each session.
func environment(env map[string]catalog.Text) ([]byte, error) {
	var lines strings.Builder
	lines.WriteString("\n") // the last line of the file may lack its newline
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value, err := env[name].Reveal()
		if err != nil {
			return nil, err
		}
		line, reason := variable(name, value)
		if reason != "" {
			return nil, writ.Errorf(writ.CodeArgumentsInvalid, "env[%q] cannot be in /etc/environment: %s", name,
				reason).
				WithHint("write a file with cloud_init instead, or put it on a volume")
		}
		lines.WriteString(line + "\n")
	}
	file := map[string]any{"path": "/etc/environment", "content": lines.String(), "append": true}
	config := map[string]any{"write_files": []any{file}}
	return append([]byte("#cloud-config\n"), asJSON(config)...), nil
}

// variable returns a line of /etc/environment, or the reason why pam_env cannot read the value. The reason does not
// contain the value.
//
// pam_env ends a line at each # (see catalog.UselessVariable), removes a pair of quotes around a value and has no
// escapes. systemd and shells also read the file. Single quotes have the same meaning in all of these programs, so they
// are preferred.
func variable(name, value string) (line, reason string) {
	if why := catalog.UselessVariable(value); why != "" {
		return "", why
	}
	if strings.ContainsRune(value, 0) {
		return "", "it contains a zero byte"
	}
	quote := "'"
	switch {
	case plain(value):
		quote = ""
	case strings.Contains(value, "'"):
		quote = `"`
	}
	line = name + "=" + quote + value + quote
	if len(line) > maxVariable {
		return "", fmt.Sprintf("with its name it exceeds %d bytes, the limit of pam_env", maxVariable)
	}
	return line, ""
}

// plain reports whether a value needs no quotes.
func plain(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("/._-+,:@%=", r))
	})
}
