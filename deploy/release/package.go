package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

// Scripts that a package runs on its host as root.
var (
	//go:embed files/preinstall.sh
	preinstall string
	//go:embed files/postinstall.sh
	postinstall string
	//go:embed files/preremove.sh
	preremove string
	//go:embed files/postremove.sh
	postremove string
)

// group is the group of coordinators, supervisors and boot servers. The group can read their settings.
const group = "writ"

// hostPackage builds a package for Debian (deb) or Fedora (rpm) with the program, systemd units, settings, manual pages
// and completions. Installation starts no daemon, but restarts running daemons. Changed files in /etc/writ are
// preserved.
func (s *packer) hostPackage(p program, format, target string) error {
	scratch, err := os.MkdirTemp(s.built.dir, "package-")
	if err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	contents, err := s.installed(p, scratch)
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", target, err)
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "writ", Arch: p.Arch, Platform: p.OS, Version: s.version, VersionSchema: "semver", Section: "admin",
		Priority: "optional", Maintainer: "The writ authors", License: "Apache-2.0", MTime: s.made, DisableGlobbing: true,
		Description: "Runs signed scripts in your datacenters\nwrit runs virtual machines, containers, volumes, networks and databases from small scripts that people and\nCI jobs sign with their SSH keys. This package has its one program, and units for all daemons.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  scripts(scratch),
			RPM: nfpm.RPM{
				Group: "Applications/System", Summary: "Runs signed scripts in your datacenters", Compression: "zstd",
				BuildHost: "writ",
			},
			Deb: nfpm.Deb{Compression: "zstd"}, // supported since Debian 12
		},
	})
	if format == "deb" {
		info.Depends = []string{"passwd"}
		info.Recommends = []string{"ca-certificates", "openssh-client", "redis-server"}
		info.Suggests = []string{"btrfs-progs", "containerd", "postgresql", "qemu-utils"}
	} else {
		info.Depends = []string{"shadow-utils"}
		info.Recommends = []string{"ca-certificates", "openssh-clients", "redis"}
		info.Suggests = []string{"btrfs-progs", "containerd", "postgresql-server", "qemu-img"}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	return s.write(target, out.Bytes())
}

// scripts returns paths of the scripts, because nfpm reads them from files.
func scripts(scratch string) nfpm.Scripts {
	path := func(name string) string { return filepath.Join(scratch, name+".sh") }
	return nfpm.Scripts{
		PreInstall: path("preinstall"), PostInstall: path("postinstall"), PreRemove: path("preremove"),
		PostRemove: path("postremove"),
	}
}

// installed lists the files of a package. Files that differ from the source are written to scratch.
func (s *packer) installed(p program, scratch string) (files.Contents, error) {
	for name, text := range map[string]string{
		"preinstall": preinstall, "postinstall": postinstall, "preremove": preremove, "postremove": postremove,
	} {
		if err := os.WriteFile(filepath.Join(scratch, name+".sh"), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	var list files.Contents
	add := func(from, to, kind, owners string, mode os.FileMode) {
		list = append(list,
			&files.Content{
				Source: from, Destination: to, Type: kind,
				FileInfo: &files.ContentFileInfo{Owner: "root", Group: owners, Mode: mode, MTime: s.made},
			})
	}
	add(p.path, "/usr/bin/writ", "", "root", 0o755)
	add("", "/etc/writ", files.TypeDir, group, 0o750)
	add(filepath.Join(s.dir, "LICENSE"), "/usr/share/doc/writ/copyright", "", "root", 0o644)
	add(filepath.Join(s.dir, "NOTICE"), "/usr/share/doc/writ/NOTICE", "", "root", 0o644)
	add(filepath.Join(s.dir, "deploy/systemd/README.md"), "/usr/share/doc/writ/README.md", "", "root", 0o644)
	add(s.built.completions["bash"], "/usr/share/bash-completion/completions/writ", "", "root", 0o644)
	add(s.built.completions["zsh"], "/usr/share/zsh/vendor-completions/_writ", "", "root", 0o644)
	add(s.built.completions["fish"], "/usr/share/fish/vendor_completions.d/writ.fish", "", "root", 0o644)

	names, err := namesIn(filepath.Join(s.dir, "deploy/systemd"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		from := filepath.Join(s.dir, "deploy/systemd", name)
		switch filepath.Ext(name) {
		case ".service":
			unit := filepath.Join(scratch, name)
			if err := packagedUnit(from, unit); err != nil {
				return nil, err
			}
			add(unit, "/usr/lib/systemd/system/"+name, "", "root", 0o644)
		case ".yaml":
			add(from, "/etc/writ/"+name, files.TypeConfigNoReplace, group, 0o640)
		}
	}
	pages, err := namesIn(s.built.man)
	if err != nil {
		return nil, err
	}
	for _, name := range pages {
		page := filepath.Join(scratch, name+".gz")
		if err := compress(filepath.Join(s.built.man, name), page); err != nil {
			return nil, err
		}
		add(page, "/usr/share/man/man1/"+name+".gz", "", "root", 0o644)
	}
	return list, nil
}

// packagedUnit copies a unit and changes its program to the program of the package. The source unit starts a program
// that was installed by hand.
func packagedUnit(from, to string) error {
	const byHand, packaged = "ExecStart=/usr/local/bin/writ ", "ExecStart=/usr/bin/writ "
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if strings.Count(string(text), byHand) != 1 {
		return fmt.Errorf("%s has no line, or several ones, that begin with %q", from, byHand)
	}
	return os.WriteFile(to, []byte(strings.Replace(string(text), byHand, packaged, 1)), 0o644)
}

func compress(from, to string) error {
	text, err := os.ReadFile(from)
	if err == nil {
		text, err = compressed(text)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
