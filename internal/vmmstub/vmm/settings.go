package vmm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// SettingsName is the file beside the program that tells it how to misbehave, as JSON of Settings. It is read anew whenever it matters,
// so a test may change it while the program runs. It lies there, and is not named by the environment, because a driver may give its
// children another one.
const SettingsName = "vmmstub.json"

// VersionName is the file beside the program that says which release it plays, "54". Without it that is v53.
const VersionName = "vmmstub.version"

// releaseOf is the release that the program at path plays.
func releaseOf(path string) Release {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), VersionName))
	if n, wrong := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && wrong == nil {
		return Release(n)
	}
	return V53
}

// QEMUVar names the program that carries out guests, if the settings name none.
const QEMUVar = "WRIT_VMMSTUB_QEMU"

// Settings are what tests want of the program that the real one does not offer. Actions are named by the last part of their path,
// "vm.boot".
type Settings struct {
	QEMU      string            `json:"qemu,omitempty"`       // path of a qemu-system program that carries out guests; "" is make-believe
	DieEarly  bool              `json:"die_early,omitempty"`  // end with code 1 before the socket answers
	HoldStart string            `json:"hold_start,omitempty"` // a FIFO: do not listen until somebody has opened it to write
	Slow      map[string]int64  `json:"slow,omitempty"`       // milliseconds that an action takes
	Hold      map[string]string `json:"hold,omitempty"`       // a FIFO: an action waits until somebody has opened it to write
	Fail      map[string]string `json:"fail,omitempty"`       // an action fails for this reason, and does nothing
	DieBefore []string          `json:"die_before,omitempty"` // SIGKILL instead of these actions
	DieAfter  []string          `json:"die_after,omitempty"`  // SIGKILL after these actions, before they are answered
	Eat       []string          `json:"eat,omitempty"`        // these actions take all the memory that there is
	Deaf      bool              `json:"deaf,omitempty"`       // guests do not notice their power button
	StuckCPUs bool              `json:"stuck_cpus,omitempty"` // guests do not give up CPUs that are taken away
	Stuck     bool              `json:"stuck,omitempty"`      // guests do not give up devices that are taken away
	Mute      bool              `json:"mute,omitempty"`       // guests give no sign of life: no line on their console, no device in use
	Linger    int64             `json:"linger,omitempty"`     // milliseconds from the end of a machine to the end of the program that takes it down
	AfterBoot string            `json:"after_boot,omitempty"` // what guests do once they were booted: poweroff, reboot, panic, crash, fail
}

// settingsReader returns the reader of the settings of the program at path.
func settingsReader(path string) func() Settings {
	return func() Settings {
		var s Settings
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(path), SettingsName)); err == nil {
			_ = json.Unmarshal(text, &s) // half a file is none; who writes it renames
		}
		if s.QEMU == "" {
			s.QEMU = os.Getenv(QEMUVar)
		}
		return s
	}
}

// wait lets an action take its time.
func (s Settings) wait(action string) error {
	time.Sleep(time.Duration(s.Slow[action]) * time.Millisecond)
	return hold(s.Hold[action])
}

// hold waits until somebody has opened a FIFO to write and closed it again, which is how a test holds this program at a place and knows
// that it is there.
func hold(fifo string) error {
	if fifo == "" {
		return nil
	}
	_, err := os.ReadFile(fifo)
	return err
}

// eat takes memory until somebody ends it.
func eat() {
	for all := [][]byte{}; ; {
		piece := make([]byte, 1<<20)
		for i := range piece {
			piece[i] = 1
		}
		all = append(all, piece)
	}
}

// crash is a death without last words.
func crash() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		os.Exit(137)
	}
	select {} // the signal is on its way
}
