// Package device parses the devices that the operator of a node offers to containers, and finds them on the host. It is
// independent of how a container gets them.
package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"writ"
	"writ/sal/catalog"
)

// Offer is a device of a node that containers may have.
type Offer struct {
	Name   string // in scripts
	Path   string // on the host and in a container; symbolic links of the host are followed at each start of a container
	Access string // "r", "rw" or "rwm", as in the rules of cgroups
}

// List is all offers of a node.
type List []Offer

// Device is an offered device as the host has it now.
type Device struct {
	Offer
	Block        bool
	Major, Minor uint32
}

// accesses lists the valid accesses.
var accesses = []string{"r", "rw", "rwm"}

// Parse parses an offer such as "kvm=/dev/kvm" or "tpm=/dev/tpm0:r". The default access is "rw".
func Parse(text string) (Offer, error) {
	name, at, ok := strings.Cut(text, "=")
	if !ok {
		return Offer{}, errors.New("it has no name")
	}
	o := Offer{Name: name, Path: at, Access: "rw"}
	if i := strings.LastIndexByte(at, ':'); i >= 0 && strings.Trim(at[i+1:], "rwm") == "" {
		o.Path, o.Access = at[:i], at[i+1:]
	}
	switch {
	case !catalog.IsDevice(name):
		return o, fmt.Errorf("the name %q may only have letters, digits, dots, hyphens and underscores", name)
	case !slices.Contains(accesses, o.Access):
		return o, fmt.Errorf("the access %q is not r, rw or rwm", o.Access)
	case !strings.HasPrefix(o.Path, "/dev/") || path.Clean(o.Path) != o.Path || strings.ContainsFunc(o.Path, isControl):
		return o, fmt.Errorf("%q is not the path of a file below /dev", o.Path)
	}
	return o, refuse(o.Path)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// refuse rejects paths below /dev that mean something else in each container or process, and directories where users
// can make files.
func refuse(at string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(at, "/dev/"), "/")
	switch first {
	case "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue":
		return fmt.Errorf("each container has its own /dev/%s", first)
	case "console", "fd", "stdin", "stdout", "stderr", "core", path.Base(catalog.InitPath):
		return fmt.Errorf("/dev/%s is not a device of the host", first)
	}
	return nil
}

// ParseList parses offers. Each name and each path must be unique, and no path may be below another.
func ParseList(texts []string) (List, error) {
	var all List
	for _, text := range texts {
		o, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		for _, earlier := range all {
			if o.Name == earlier.Name || o.Path == earlier.Path || strings.HasPrefix(o.Path, earlier.Path+"/") ||
				strings.HasPrefix(earlier.Path, o.Path+"/") {
				return nil, fmt.Errorf("%q: its name or path conflicts with %s=%s", text, earlier.Name, earlier.Path)
			}
		}
		all = append(all, o)
	}
	return all, nil
}

// Names returns the names of all offers, sorted.
func (l List) Names() []string {
	var names []string
	for _, o := range l {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

// Present returns the offers whose device exists, and an error about the missing devices.
func (l List) Present() (there List, missing error) {
	for _, o := range l {
		if _, err := o.Find(); err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		there = append(there, o)
	}
	return there, missing
}

// FindAll returns the devices with these names as the host has them now, in this order. It returns DEVICE_FORBIDDEN for
// a name that is not offered, and DRIVER_REFUSED for a missing device.
func (l List) FindAll(names []string) ([]Device, error) {
	var all []Device
	for _, name := range names {
		i := slices.IndexFunc(l, func(o Offer) bool { return o.Name == name })
		if i < 0 {
			offers := "it offers none"
			if len(l) > 0 {
				offers = "it offers " + strings.Join(l.Names(), ", ")
			}
			return nil, writ.Errorf(writ.CodeDeviceForbidden, "this node does not offer the device %s", name).
				WithHint("%s; its operator offers others with `writ runner --device NAME=PATH`", offers)
		}
		d, err := l[i].Find()
		if err != nil {
			return nil, writ.Errorf(writ.CodeDriverRefused, "the device %s of this node cannot be used: %w", name, err).
				WithHint("plug it in, or load its kernel module, then repeat the call; `writ doctor` on the node checks it")
		}
		all = append(all, d)
	}
	return all, nil
}

// Find returns the device of an offer as the host has it now.
func (o Offer) Find() (Device, error) {
	real, err := filepath.EvalSymlinks(o.Path)
	if err != nil {
		return Device{}, err
	}
	if !strings.HasPrefix(real, "/dev/") || refuse(real) != nil {
		return Device{}, fmt.Errorf("%s leads to %s, which is not a device of the host", o.Path, real)
	}
	info, err := os.Lstat(real)
	if err != nil {
		return Device{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&os.ModeDevice == 0 {
		return Device{}, fmt.Errorf("%s is not a device", real)
	}
	number := uint64(stat.Rdev)
	return Device{
		Offer: o, Block: info.Mode()&os.ModeCharDevice == 0, Major: unix.Major(number), Minor: unix.Minor(number),
	}, nil
}

// Mode returns the permissions of the device's node in a container. All users in the container may use the device.
func (o Offer) Mode() fs.FileMode {
	if strings.Contains(o.Access, "w") {
		return 0o666
	}
	return 0o444
}
