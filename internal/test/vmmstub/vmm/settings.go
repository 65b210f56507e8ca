package vmm

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SettingsName is the JSON file with Settings beside the program. It is read at each use, so a test may change it while
// the program runs. It is not named by an environment variable, because a driver may start its children with another
// environment.
const SettingsName = "vmmstub.json"

// VersionName is the file beside the program with the simulated release, such as "54". The default is v53.
const VersionName = "vmmstub.version"

// releaseOf returns the release that the program at path simulates.
func releaseOf(path string) Release {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), VersionName))
	if n, wrong := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && wrong == nil {
		return Release(n)
	}
	return V53
}

// QEMUVar is the environment variable with the QEMU program for guests, if the settings do not name it.
const QEMUVar = "WRIT_VMMSTUB_QEMU"

// Settings control the stub beyond the options of the real program. Actions are named by the last part of their path,
// such as "vm.boot".
type Settings struct {
	// Path of a qemu-system program that runs guests; "" means a simulated guest.
	QEMU      string           `json:"qemu,omitempty"`
	DieEarly  bool             `json:"die_early,omitempty"`  // exit with code 1 before the socket answers
	HoldStart string           `json:"hold_start,omitempty"` // a FIFO: do not listen before it was opened for writing
	Slow      map[string]int64 `json:"slow,omitempty"`       // delay of actions in milliseconds
	// Hold names a FIFO for an action, which waits until the FIFO was opened for writing.
	Hold      map[string]string `json:"hold,omitempty"`
	Fail      map[string]string `json:"fail,omitempty"`       // actions that fail without effect, with the reason
	DieBefore []string          `json:"die_before,omitempty"` // SIGKILL instead of these actions
	DieAfter  []string          `json:"die_after,omitempty"`  // SIGKILL after these actions, before the answer
	Eat       []string          `json:"eat,omitempty"`        // these actions allocate all memory
	Deaf      bool              `json:"deaf,omitempty"`       // guests ignore their power button
	StuckCPUs bool              `json:"stuck_cpus,omitempty"` // guests do not release removed CPUs
	Stuck     bool              `json:"stuck,omitempty"`      // guests do not release removed devices
	Mute      bool              `json:"mute,omitempty"`       // guests show no activity: no output and no device in use
	// Milliseconds between the end of a machine and the end of the program that shuts it down.
	Linger int64 `json:"linger,omitempty"`
	// Action of guests after their boot: poweroff, reboot, panic, crash, fail.
	AfterBoot string `json:"after_boot,omitempty"`
}

// settingsReader returns a function that reads the settings of the program at path.
func settingsReader(path string) func() Settings {
	return func() Settings {
		var s Settings
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(path), SettingsName)); err == nil {
			_ = json.Unmarshal(text, &s) // writers replace the file atomically
		}
		if s.QEMU == "" {
			s.QEMU = os.Getenv(QEMUVar)
		}
		return s
	}
}

// wait delays an action.
func (s Settings) wait(action string) error {
	time.Sleep(time.Duration(s.Slow[action]) * time.Millisecond)
	return hold(s.Hold[action])
}

// misbehave executes an action with the faults for it.
func (s Settings) misbehave(name string, do func() (any, error)) (any, error) {
	if slices.Contains(s.DieBefore, name) {
		crash()
	}
	if slices.Contains(s.Eat, name) {
		eat()
	}
	if err := s.wait(name); err != nil {
		return nil, err
	}
	if text, ok := s.Fail[name]; ok {
		return nil, errors.New(text)
	}
	given, err := do()
	if slices.Contains(s.DieAfter, name) {
		crash()
	}
	return given, err
}

// hold waits until a FIFO was opened for writing and closed again. A test uses it to stop the program at a certain
// point.
func hold(fifo string) error {
	if fifo == "" {
		return nil
	}
	_, err := os.ReadFile(fifo)
	return err
}

// eat allocates memory until the process is killed.
func eat() {
	for all := [][]byte{}; ; {
		piece := make([]byte, 1<<20)
		for i := range piece {
			piece[i] = 1
		}
		all = append(all, piece)
	}
}

// crash kills the process without output.
func crash() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		os.Exit(137)
	}
	select {} // until the signal arrives
}
