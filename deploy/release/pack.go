package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"writ/efi/sbom"
)

// bare returns the version without its v, as in the names of packages.
func (s *source) bare() string { return strings.TrimPrefix(s.version, "v") }

// packer writes the files of a release.
type packer struct {
	*source
	built *builds
	out   string // directory
}

// pack writes all files.
func (s *packer) pack() error {
	for _, p := range s.built.programs {
		stem := filepath.Join(s.out, fmt.Sprintf("writ_%s_%s_%s", s.bare(), p.OS, p.Arch))
		if err := s.archive(p, stem+".tar.gz"); err != nil {
			return err
		}
		if err := s.components(p, stem+".cdx.json"); err != nil {
			return err
		}
		if p.OS != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := s.hostPackage(p, format, stem+"."+format); err != nil {
				return err
			}
		}
	}
	if err := s.image(filepath.Join(s.out, fmt.Sprintf("writ_%s_image.tar", s.bare()))); err != nil {
		return err
	}
	return s.sums()
}

// components writes the Go modules of a program as a CycloneDX file.
func (s *packer) components(p program, path string) error {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return fmt.Errorf("list the components: %w", err)
	}
	_, modules := sbom.GoModules(data)
	sum := sha256.Sum256(data)
	text, err := sbom.Encode(sbom.Component{
		Type: "application", Name: "writ", Version: s.bare(), SHA256: hex.EncodeToString(sum[:]), License: "Apache-2.0",
	}, modules)
	if err != nil {
		return fmt.Errorf("list the components: %w", err)
	}
	return s.write(path, text)
}

// sumsName is the file of checksums, in the format of sha256sum. The release manager signs it.
const sumsName = "SHA256SUMS"

func (s *packer) sums() error {
	entries, err := os.ReadDir(s.out)
	if err != nil {
		return fmt.Errorf("write checksums: %w", err)
	}
	var text bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(s.out, e.Name()))
		if err != nil {
			return fmt.Errorf("write checksums: %w", err)
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return s.write(filepath.Join(s.out, sumsName), text.Bytes())
}

// write writes a file of the release and reports it.
func (s *packer) write(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write a file of the release: %w", err)
	}
	fmt.Fprintf(s.progress, "%6.1f MB  %s\n", float64(len(data))/1e6, path)
	return nil
}

// namesIn returns the sorted file names of a directory.
func namesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}
