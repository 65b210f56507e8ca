package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"writ"
	"writ/efi/boot"
	"writ/efi/libraries"
)

// compressed lists the suffixes that the kernel appends when it searches for firmware.
var compressed = []string{"", ".zst", ".xz"}

// firmware adds firmware files. Afterwards, Image.Firmware contains only the files that modules may request but the
// image lacks.
func (r *Recipe) firmware(f *files) error {
	taken := map[string]bool{}
	take := func(name string) error {
		if taken[name] {
			return nil
		}
		data, err := fs.ReadFile(r.Firmware, name)
		if err != nil {
			return err
		}
		taken[name] = true
		f.file(path.Join(firmwareAt, name), 0o644, data)
		return nil
	}
	for _, pattern := range r.FirmwareFiles {
		var names []string
		if r.Firmware != nil {
			names, _ = fs.Glob(r.Firmware, pattern) // an invalid pattern matches nothing
		}
		if len(names) == 0 {
			return writ.Errorf(writ.CodeNotFound, "no package has the firmware %s", pattern).
				WithHint("`apt-file search lib/firmware/%s` names its package; put it next to the kernel's", pattern)
		}
		for _, name := range names {
			if err := take(name); err != nil {
				return writ.Errorf(writ.CodeUsage, "cannot read the firmware %s: %v", name, err).
					WithHint("name files in the patterns, not directories; `apt-get download` its package again if it is damaged")
			}
		}
	}
	if r.Firmware == nil {
		return nil
	}
	var failed error
	f.image.Firmware = slices.DeleteFunc(f.image.Firmware, func(name string) bool {
		if r.FirmwareOfModules {
			for _, ending := range compressed {
				if err := take(name + ending); err != nil && !errors.Is(err, fs.ErrNotExist) &&
					!errors.Is(err, fs.ErrInvalid) {
					failed = errors.Join(failed, err)
				}
			}
		}
		return slices.ContainsFunc(compressed, func(ending string) bool { return taken[name+ending] })
	})
	return failed
}

// extras adds certificates, the operator's files and the libraries of the operator's programs.
func (r *Recipe) extras(f *files) error {
	if len(r.Authorities) > 0 {
		f.file(inside(AuthoritiesAt), 0o644, r.Authorities)
	}
	for _, extra := range r.Extra {
		perm := fs.FileMode(0o644)
		if extra.Program {
			if _, err := checkProgram(extra.Name, extra.Data,
				"name a program for Linux on amd64; put other files under files of the program"); err != nil {
				return err
			}
			perm = 0o755
		}
		if slices.ContainsFunc(f.image.Files, func(there File) bool { return there.Name == inside(extra.Name) }) {
			return writ.Errorf(writ.CodeUsage, "the image already has %s", extra.Name).
				WithHint("give the file another place in the recipe")
		}
		f.file(inside(extra.Name), perm, extra.Data)
	}
	if err := r.libraries(f); err != nil {
		return err
	}
	return r.services(f)
}

// libraries adds the libraries of the operator's programs. An operator's file may itself be a library that a program
// loads at run time.
func (r *Recipe) libraries(f *files) error {
	var programs []libraries.Program
	for _, extra := range r.Extra {
		programs = append(programs, libraries.Program{Name: extra.Name, From: extra.From, Data: extra.Data})
	}
	set, err := libraries.Closure(r.Packages, programs)
	if err != nil {
		return err
	}
	f.image.Loading = set.Loading
	for _, l := range set.Libraries {
		f.file(inside(l.Name), 0o755, l.Data)
		f.image.Libraries = append(f.image.Libraries, Library{inside(l.Name), l.From})
	}
	return nil
}

// services adds the list of services for the first process.
func (r *Recipe) services(f *files) error {
	if len(r.Services) == 0 {
		return nil
	}
	programs := []string{boot.Program}
	for _, extra := range r.Extra {
		if extra.Program {
			programs = append(programs, extra.Name)
		}
	}
	if err := boot.CheckServices(r.Services, programs); err != nil {
		return err
	}
	list, err := json.MarshalIndent(r.Services, "", "\t")
	if err != nil {
		return fmt.Errorf("write the services of the image: %w", err)
	}
	f.file(inside(boot.ServicesAt), 0o644, list)
	return nil
}
