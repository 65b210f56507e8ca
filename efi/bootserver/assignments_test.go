package bootserver

import (
	"strings"
	"testing"

	"writ"
	"writ/efi/progress"
)

func anyWords([]string) error { return nil }

// assignments parses a valid text.
func assignments(t *testing.T, text string) *Assignments {
	t.Helper()
	a, err := ParseAssignments(text, anyWords)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A machine gets its own settings after the common ones, by hardware address or serial number. The list shows whether
// it uses them.
//
// Promise: Machines from an image: A machine can have its own settings, by network card or serial number, and
// operators see whether it uses them.
// How: They are only in its script; it reports a digest of its settings; an error names the line, and an invalid file
// keeps the earlier settings.
// Also: TestSettingsThatNoMachineCouldHaveAreRefused, TestAnAssignmentChangesItsLineOnly,
// TestReportsContainTheSettingsDigest, TestOneMachineGetsItsOwnSettings.
func TestAMachineGetsItsOwnSettingsAndOperatorsSeeWhetherItUsesThem(t *testing.T) {
	text, trouble := "", error(nil)
	f := newFixture(t, func(c *Config) { c.Assigned = func() (*Assignments, error) { return assignments(t, text), trouble } })
	text = "# rack 7\n52-54-00-77-00-50 writ.name=n1 writ.address=10.77.0.4/24 # top\nserial=S%20123 writ.name=n2\n"
	for _, r := range f.rows() {
		if r.Step != "" || r.Assignment != AssignmentWaits || !strings.Contains(r.Advice, "no request since") {
			t.Errorf("before the machine asks it is %+v", r)
		}
	}
	if all := f.rows(); len(all) != 2 || all[0].MAC != mac || all[1].MAC != "serial=S%20123" || all[1].Assigned != "writ.name=n2" {
		t.Errorf("before they ask the machines are %+v", all)
	}
	see := func(assigned, state, advice string) {
		t.Helper()
		all := f.rows()
		if r := all[0]; r.MAC != mac || r.Assigned != assigned || r.Assignment != state || !strings.Contains(r.Advice, advice) {
			t.Errorf("the row is %+v, want %s, %s and %q", r, assigned, state, advice)
		}
	}
	cmdline := func(ask string) string {
		t.Helper()
		_, script, _ := f.get("/boot/ipxe?mac=" + macName + ask)
		_, line, _ := strings.Cut(script, "\nkernel ")
		line, _, _ = strings.Cut(line, " || goto failed")
		_, line, _ = strings.Cut(line, " ")
		return line
	}
	first := "writ.name=n1 writ.address=10.77.0.4/24"
	given := cmdline("&serial=S%20123") // the hardware address takes precedence
	if !strings.HasPrefix(given, "console=ttyS0 writ.cluster="+strings.Repeat("0a", 32)+" "+first+" writ.boot="+f.url) {
		t.Errorf("the command line is %s", given)
	}
	see(first, AssignmentGiven, "asked for its script")
	f.report(macName, progress.Report{Stage: progress.StageStart})
	see(first, AssignmentGiven, "start")
	f.report(macName, progress.Report{Stage: progress.StageStart, Settings: progress.SettingsOf("quiet " + given + " writ.join=secret")})
	see(first, AssignmentUsed, "start")
	// An earlier image omits the digest; the current one sends it in every report.
	f.report(macName, progress.Report{Stage: progress.StageClock})
	see(first, AssignmentUsed, "clock")
	f.report(macName, progress.Report{Stage: progress.StageClock, Settings: progress.SettingsOf(strings.Replace(given, "n1", "n7", 1))})
	see(first, AssignmentIgnored, "did not start with the settings of its script")

	text = "serial=S%20123 writ.name=n2\n"
	see("writ.name=n2", AssignmentWaits, "they take effect at its next start")
	if line := cmdline("&serial=S%20123"); !strings.Contains(line, " writ.name=n2 writ.boot=") {
		t.Errorf("by its serial number the command line is %s", line)
	}
	see("writ.name=n2", AssignmentGiven, "")
	if all := f.rows(); len(all) != 1 {
		t.Errorf("a machine is listed twice: %+v", all)
	}
	text = ""
	see("", AssignmentWaits, "settings have changed")
	if line := cmdline("&serial=S%20123"); strings.Contains(line, "writ.name") {
		t.Errorf("without settings the command line is %s", line)
	}
	see("", "", "")
	text, trouble = "serial=S%20123 writ.name=n2\n", error(writ.Errorf(writ.CodeUsage, "line 3"))
	if l := f.List(); !strings.Contains(l.Trouble, "line 3") || l.Machines[0].Assigned != "writ.name=n2" {
		t.Errorf("with trouble the list is %+v", l)
	}
}

func TestSettingsThatNoMachineCouldHaveAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"n1 writ.name=n1\n":                     `line 1: "n1" does not name a machine`,
		"# one\nff:ff:ff:ff:ff:ff writ.name=n1": "line 2:",
		"serial= writ.name=n1\n":                "line 1:",
		"serial=%zz writ.name=n1\n":             "line 1:",
		mac + "\n":                              "has no settings",
		mac + " writ.name=n1\n\n52-54-00-77-00-50 writ.name=n2\n":              "line 3: " + mac + " already has a line",
		mac + " writ.name=n1\n52-54-00-77-00-51 writ.name=n1\n":                "line 2: " + mac + " already has writ.name=n1",
		mac + " writ.address=10.0.0.1/8\nserial=S-1 writ.address=10.0.0.1/8\n": "line 2:",
		mac + " writ.name=${ip}\n":                                             "iPXE",
		mac + " bad\n":                                                         "line 1: no such word",
	} {
		_, err := ParseAssignments(text, func(words []string) error {
			if words[0] == "bad" {
				return writ.Errorf(writ.CodeUsage, "no such word")
			}
			return nil
		})
		if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("of %q: %v, want %q", text, err, says)
		}
	}
}

// Comments and spaces in the file stay unchanged, except in the line of the machine.
func TestAnAssignmentChangesItsLineOnly(t *testing.T) {
	before := "# rack 7\n\n52-54-00-77-00-50  writ.name=n1 # top\nserial=S-1 writ.name=n2"
	for want, got := range map[string]string{
		"# rack 7\n\n" + mac + " writ.name=n9 writ.data=x\nserial=S-1 writ.name=n2\n":                       Assign(before, mac, []string{"writ.name=n9", "writ.data=x"}),
		"# rack 7\n\n52-54-00-77-00-50  writ.name=n1 # top\n":                                               Assign(before, "serial=S-1", nil),
		"# rack 7\n\n52-54-00-77-00-50  writ.name=n1 # top\nserial=S-1 writ.name=n2\nserial=S-2 writ.a=b\n": Assign(before, "serial=S-2", []string{"writ.a=b"}),
		mac + " writ.name=n1\n": Assign("", mac, []string{"writ.name=n1"}),
	} {
		if got != want {
			t.Errorf("the file is\n%s, want\n%s", got, want)
		}
	}
}
