// Package devices loads the kernel modules that the devices of a starting machine request, and lists missing drivers
// and missing firmware files. It reads /sys, the kernel log and the modules of an image. It does not depend on the use
// of a device.
package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"writ/efi/modules"
)

// Loader loads the modules that devices request.
type Loader struct {
	Loads func(module string) // runs before each module is loaded; may be nil

	index   *modules.Index
	devices fs.FS                         // /sys/devices
	load    func(m *modules.Module) error // loads one module into the kernel

	mu    sync.Mutex
	tried map[string]bool // modules tried so far, including failed modules, so that a failure is reported once
}

// Named loads modules by name, with their dependencies.
func (l *Loader) Named(names []string) (loaded int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed []error
	for _, name := range names {
		n, err := l.closure(name)
		loaded += n
		failed = append(failed, err)
	}
	return loaded, errors.Join(failed...)
}

// All loads the modules for all devices. It repeats until no new alias appears, because a bus exposes its devices only
// after its driver is loaded.
func (l *Loader) All() (loaded int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := map[string]bool{}
	var failed []error
	for {
		before := len(asked)
		for _, alias := range aliases(l.devices) {
			if asked[alias] {
				continue
			}
			asked[alias] = true
			n, err := l.closure(alias)
			loaded += n
			failed = append(failed, err)
		}
		if len(asked) == before {
			return loaded, errors.Join(failed...)
		}
	}
}

// closure loads the modules for a name or an alias. Unknown aliases are not an error: the driver may be built into the
// kernel, or missing from the image.
func (l *Loader) closure(alias string) (loaded int, err error) {
	if found, _ := l.index.Find(alias); len(found) == 0 {
		return 0, nil
	}
	order, err := l.index.Closure(alias)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, m := range order {
		if l.tried[m.Name] {
			continue
		}
		l.tried[m.Name] = true
		if l.Loads != nil {
			l.Loads(m.Name)
		}
		if err := l.load(m); err != nil {
			failed = append(failed, fmt.Errorf("load the module %s: %w", m.Name, err))
			continue
		}
		loaded++
	}
	return loaded, errors.Join(failed...)
}

// aliases returns the modaliases of all present devices, sorted.
func aliases(devices fs.FS) (all []string) {
	_ = fs.WalkDir(devices, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil { // a device may vanish during the walk
			return nil
		}
		if entry.Type().IsRegular() && path.Base(file) == "modalias" {
			if text, err := fs.ReadFile(devices, file); err == nil && len(text) > 1 {
				all = append(all, strings.TrimSpace(string(text)))
			}
		}
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all)
}
