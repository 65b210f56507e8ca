package doctor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon/runnerd"
	"writ/cmd/writ/internal/terminal"
)

// examineData checks whether a daemon could use a directory for its state, or create it.
func examineData(dir string) finding {
	f := finding{Check: "data directory", State: healthy, Detail: dir}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			if at == filepath.Dir(at) {
				break
			}
			continue
		}
		if !info.IsDir() {
			f.State, f.Detail, f.Fix = ill, at+" is not a directory", "choose another place with --data"
			return f
		}
		probe, err := os.CreateTemp(at, ".writ-doctor-*")
		if err != nil {
			f.State, f.Detail, f.Fix = suspect, "cannot write to "+at, "choose another place with --data"
			if errors.Is(err, unix.EROFS) {
				f.Detail = at + " is on a read-only disk"
				f.Fix = "make the disk writable, or choose another place with --data"
			}
			return f
		}
		_ = probe.Close()
		_ = os.Remove(probe.Name())
		if e := writ.AsError(config.UnsafeData(dir)); e != nil {
			f.State, f.Detail, f.Fix = suspect, e.Message, e.Hint
		}
		return f
	}
	return f
}

// tool is a program that writ can use.
type tool struct {
	name    string
	version []string // arguments that print the version in the first line
	use     string
	fix     string
}

func (t tool) examine() finding {
	f := finding{Check: "tool " + t.name, State: healthy}
	path, err := exec.LookPath(t.name)
	if err != nil {
		f.State, f.Detail, f.Fix = suspect, "not on PATH: "+t.use, t.fix
		return f
	}
	f.Detail = path
	if t.version == nil {
		return f
	}
	ctx, stop := context.WithTimeout(context.Background(), doctorPatience)
	defer stop()
	if text, err := exec.CommandContext(ctx, path, t.version...).Output(); err == nil {
		first, _, _ := strings.Cut(string(text), "\n")
		f.Detail += ", " + terminal.Clean(first)
	}
	return f
}

// examineHost checks the requirements of the node drivers on this host and reports the features that would not work.
func examineHost(ctx context.Context, data string, host runnerd.HostConfig) []finding {
	if runtime.GOOS != "linux" {
		return []finding{{
			Check: "kernel", State: suspect,
			Detail: runtime.GOOS + ": this machine can be a client; nodes and supervisors need Linux",
		}}
	}
	all, err := runnerd.HostNeeds(ctx, data, host)
	if err != nil {
		return []finding{{Check: "drivers of a node", State: ill, Detail: err.Error(), Fix: writ.AsError(err).Hint}}
	}
	found := make([]finding, len(all))
	for i, f := range all {
		found[i] = finding{Check: f.Module + ": " + f.Need, State: string(f.State), Detail: f.Detail, Lost: f.Use, Fix: f.Fix}
	}
	return found
}
