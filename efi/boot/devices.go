package boot

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

// loader loads the modules that devices ask for.
type loader struct {
	index   *modules.Index
	devices fs.FS                         // /sys/devices
	load    func(m *modules.Module) error // into the kernel

	mu    sync.Mutex
	tried map[string]bool // modules, whether or not that worked: what failed is told once
}

// named loads modules by their names, and what they need.
func (l *loader) named(names []string) (loaded int, err error) {
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

// all loads what devices ask for, until they ask for nothing more: a bus shows its devices once its driver is there.
func (l *loader) all() (loaded int, err error) {
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

// closure loads the modules of one name or alias. There may be none: the kernel has the driver inside, or the image has it not.
func (l *loader) closure(alias string) (loaded int, err error) {
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
		if err := l.load(m); err != nil {
			failed = append(failed, fmt.Errorf("load the module %s: %w", m.Name, err))
			continue
		}
		loaded++
	}
	return loaded, errors.Join(failed...)
}

// aliases are those of all devices that are there.
func aliases(devices fs.FS) (all []string) {
	_ = fs.WalkDir(devices, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil { // a device may go while it is looked at
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
