package vmm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// Files of a snapshot. save fails if one of them exists already.
const (
	snapshotConfig = "config.json"
	snapshotState  = "state.json"
	snapshotMemory = "memory-ranges"
)

// saveMachine saves a paused machine in an existing directory.
func saveMachine(v *vmm, body []byte) (any, error) {
	var asked struct {
		URL string `json:"destination_url" need:"yes"`
	}
	if f := decodeBody(body, &fields{&asked}); f != nil {
		return nil, f
	}
	if v.vm == nil {
		return nil, errNotRunning
	}
	v.events.tell("vm", "snapshotting")
	if v.vm.state != statePaused {
		return nil, chain{
			"Cannot snapshot VM", "Failed to snapshot migratable component", "Trying to snapshot while VM is running",
		}
	}
	v.events.tell("vm", "snapshotted")
	dir, err := directory(asked.URL)
	if err == nil {
		err = v.vm.save(dir, v.config)
	}
	if err != nil {
		return nil, append(chain{"Cannot send VM snapshot", "Failed to send migratable component snapshot"}, causes(err)...)
	}
	return nil, nil
}

// directory returns the path of a file:// URL, which must be a directory.
func directory(url string) (string, error) {
	dir, found := strings.CutPrefix(url, "file://")
	if !found {
		return "", errorf("Could not extract path from URL: %s", url)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", errorf("Destination is not a directory: %q", dir)
	}
	return dir, nil
}

// state holds the part of a snapshot that is neither configuration nor memory.
type state struct {
	CPUs    uint32 `json:"cpus"`
	Counter int    `json:"counter"`
}

// save writes the files of a snapshot.
func (vm *machine) save(dir string, c *vmConfig) error {
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	kept, err := json.Marshal(state{vm.cpus, vm.counter})
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name, text string
		content    []byte
	}{
		{snapshotConfig, "Error creating VM config snapshot file", config},
		{snapshotState, "Error creating VM state snapshot file", kept},
		{snapshotMemory, "Error creating VM memory snapshot file", nil},
	} {
		f, err := os.OpenFile(filepath.Join(dir, file.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return wrap(file.text, cause(err))
		}
		_, err = f.Write(file.content)
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return wrap(file.text, cause(err))
		}
	}
	return vm.guest.save(filepath.Join(dir, snapshotMemory), c.Memory.total())
}

// restoreMachine creates the machine from a snapshot, paused unless resume is set. If it fails, no machine is left.
func restoreMachine(v *vmm, body []byte) (any, error) {
	asked := struct {
		URL      string `json:"source_url" need:"yes"`
		Prefault bool   `json:"prefault"`
		Mode     string `json:"memory_restore_mode" oneof:"Copy OnDemand"`
		Resume   bool   `json:"resume"`
	}{Mode: "Copy"}
	if f := decodeBody(body, &fields{&asked}); f != nil {
		return nil, f
	}
	if v.config != nil || v.vm != nil {
		return nil, errAlreadyCreated
	}
	if asked.Prefault && asked.Mode == "OnDemand" {
		return nil, invalid("'prefault' cannot be combined with 'memory_restore_mode=ondemand'")
	}
	dir, err := directory(asked.URL)
	if err == nil {
		err = v.load(dir)
	}
	if err == nil && asked.Resume {
		err = v.vm.resume()
	}
	if err != nil {
		if err := v.delete(); err != nil {
			return nil, err
		}
		return nil, append(chain{"Cannot restore VM"}, causes(err)...)
	}
	return nil, nil
}

// load makes the machine of a snapshot, paused.
func (v *vmm) load(dir string) error {
	config := &vmConfig{}
	if err := readJSON(filepath.Join(dir, snapshotConfig), config); err != nil {
		return wrap("Error reading VM config snapshot file", cause(err))
	}
	var kept state
	if err := readJSON(filepath.Join(dir, snapshotState), &kept); err != nil {
		return wrap("Error reading VM state snapshot file", cause(err))
	}
	v.config = config
	v.events.tell("vm", "restoring")
	memory := filepath.Join(dir, snapshotMemory)
	saved, err := os.Stat(memory)
	if err != nil {
		return wrap("Error opening memory snapshot file", cause(err))
	}
	if v.settings().QEMU == "" && uint64(saved.Size()) != config.Memory.total() {
		return chain{"Memory manager error", "Error copying snapshot into region", "failed to fill whole buffer"}
	}
	if err := v.start(memory); err != nil {
		return err
	}
	v.vm.state, v.vm.cpus, v.vm.counter = statePaused, kept.CPUs, kept.Counter
	v.events.tell("vm", "restored")
	return nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
