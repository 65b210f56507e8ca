package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/cmd/writ/internal/terminal"
)

const shippedUnits = "../../deploy/systemd"

func TestDoctorWarnsOfAUnitThatEndsMachinesWithTheirRunner(t *testing.T) {
	const runner = "[Service]\nExecStart=/usr/bin/writ runner --data /x\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // the states of what is found
	}{
		"by default":            {map[string]string{"etc/n.service": runner}, "warning"},
		"only the runner":       {map[string]string{"etc/n.service": runner + "KillMode=process\n"}, "ok"},
		"in another section":    {map[string]string{"etc/n.service": runner + "[Unit]\nKillMode=process\n"}, "warning"},
		"mixed":                 {map[string]string{"etc/n.service": runner + "KillMode = mixed\n"}, "warning"},
		"taken back":            {map[string]string{"etc/n.service": runner + "KillMode=process\nKillMode=\n"}, "warning"},
		"a comment":             {map[string]string{"etc/n.service": runner + "# KillMode=process\n"}, "warning"},
		"dropped in":            {map[string]string{"lib/n.service": runner, "etc/n.service.d/override.conf": "[Service]\nKillMode=process\n"}, "ok"},
		"dropped in over it":    {map[string]string{"lib/n.service": runner + "KillMode=process\n", "etc/n.service.d/z.conf": "[Service]\nKillMode=control-group\n"}, "warning"},
		"dropped in and hidden": {map[string]string{"lib/n.service": runner, "lib/n.service.d/a.conf": "[Service]\nKillMode=process\n", "etc/n.service.d/a.conf": ""}, "warning"},
		"the administrator's":   {map[string]string{"lib/n.service": runner, "etc/n.service": runner + "KillMode=process\n"}, "ok"},
		"another program":       {map[string]string{"etc/n.service": "[Service]\nExecStart=/usr/bin/gitlab-runner runner\n"}, ""},
		"a supervisor":          {map[string]string{"etc/n.service": "[Service]\nExecStart=/usr/bin/writ supervisor\n"}, ""},
		"by something else":     {map[string]string{"etc/n.service": "[Service]\nExecStart=-/usr/bin/nice \\\n  -n 5 /opt/writ runner\n"}, "warning"},
		"none":                  {nil, ""},
		"two":                   {map[string]string{"etc/n.service": runner, "lib/o@.service": runner + "KillMode=process\n"}, "warning ok"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tt.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var states []string
			for _, f := range examineUnits([]string{filepath.Join(dir, "etc"), filepath.Join(dir, "lib")}) {
				states = append(states, f.State)
				if (f.State == doubtful) != (f.Fix != "" && strings.Contains(f.Lost, "machines")) {
					t.Errorf("it says %+v", f)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(states, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnitsThatAreShippedAreFineAndLetMachinesGoOn(t *testing.T) {
	found := examineUnits([]string{shippedUnits})
	if len(found) != 1 || found[0].Check != "unit writ-runner.service" || found[0].State != healthy {
		t.Errorf("of what is shipped the doctor says %+v", found)
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("nothing here reads units")
	}
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, name := range unitNames([]string{shippedUnits}) {
		text := read(t, filepath.Join(shippedUnits, name))
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "/usr/local/bin/writ", "/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if said, err := exec.Command(verify, args...).CombinedOutput(); err != nil || strings.Contains(string(said), dir) {
		t.Errorf("systemd says %v\n%s", err, said)
	}
}

// The settings beside the units are read by the daemons as they are.
func TestSettingsThatAreShippedAreSettings(t *testing.T) {
	a := &app{Terminal: terminal.New(os.Stdin, os.Stdout, os.Stderr, nil)}
	for _, name := range []string{"coord", "supervisor", "runner"} {
		cmd, _, err := a.root().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if err := fillFromFile(cmd, filepath.Join(shippedUnits, name+".yaml")); err != nil {
			t.Error(err)
		}
	}
}
