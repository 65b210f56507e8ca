package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
)

const shippedUnits = "../../../../../deploy/systemd"

func TestDoctorWarnsOfAUnitThatEndsMachinesWithTheirRunner(t *testing.T) {
	const runner = "[Service]\nExecStart=/usr/bin/writ runner --data /x\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // states of the findings
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
		"dropped in by a name that looks like a pattern": {map[string]string{
			"lib/n[1].service": runner, "etc/n[1].service.d/override.conf": "[Service]\nKillMode=process\n", "etc/n1.service.d/x.conf": "[Service]\nKillMode=mixed\n",
		}, "ok"},
		"two": {map[string]string{"etc/n.service": runner, "lib/o@.service": runner + "KillMode=process\n"}, "warning ok"},
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
				if (f.State == suspect) != (f.Fix != "" && strings.Contains(f.Lost, "machines")) {
					t.Errorf("it says %+v", f)
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(states, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Promise: Secrets: The shipped systemd units expose little, and the drivers need only the capabilities of the
// runner's unit.
// How: systemd's own score is bounded; real drivers run with the unit's capabilities and `no_new_privs`.
// Also: TestUnitsThatAreShippedExposeLittle, TestAScriptWorksOnRealDrivers.
func TestShippedUnitsAreValidAndKeepMachinesRunning(t *testing.T) {
	found := examineUnits([]string{shippedUnits})
	if len(found) != 1 || found[0].Check != "unit writ-runner.service" || found[0].State != healthy {
		t.Errorf("findings about the shipped units = %+v", found)
	}
	verify := testenv.Need(t, "systemd-analyze")
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, name := range unitNames([]string{shippedUnits}) {
		text, err := os.ReadFile(filepath.Join(shippedUnits, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/writ", "/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	if said, err := exec.Command(verify, args...).CombinedOutput(); err != nil || strings.Contains(string(said), dir) {
		t.Errorf("systemd says %v\n%s", err, said)
	}
}

// TestUnitsThatAreShippedExposeLittle checks systemd's exposure score of each unit, in tenths: 100 is full exposure.
// The runner is root and changes its host.
func TestUnitsThatAreShippedExposeLittle(t *testing.T) {
	analyze := testenv.Need(t, "systemd-analyze")
	for name, most := range map[string]int{"writ-boot.service": 25, "writ-coord.service": 25, "writ-supervisor.service": 25, "writ-runner.service": 75} {
		said, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", fmt.Sprintf("--threshold=%d", most), filepath.Join(shippedUnits, name)).CombinedOutput()
		if err != nil {
			t.Errorf("%s is more exposed than %d: %v\n%s", name, most, err, said)
		}
	}
}
