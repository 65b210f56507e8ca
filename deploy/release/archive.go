package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// file is a file and its place in an archive.
type file struct {
	name string // with slashes
	from string // path of the source file
	mode int64
}

// archive writes the archive of a program, with its manual pages, completions and licences, and on Linux with systemd
// units.
func (s *packer) archive(p program, target string) error {
	files, err := s.archived(p)
	if err != nil {
		return fmt.Errorf("list the files of %s: %w", target, err)
	}
	data, err := s.tar(files)
	if err == nil {
		data, err = compressed(data)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", target, err)
	}
	return s.write(target, data)
}

// tar packs files, in this order.
func (s *packer) tar(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{
			Name: f.name, Size: int64(len(data)), Mode: f.mode, ModTime: s.made, Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end
	return out.Bytes(), err
}

func compressed(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

// archived lists the files of an archive, below one directory.
func (s *packer) archived(p program) ([]file, error) {
	files := []file{
		{"writ", p.path, 0o755},
		{"LICENSE", filepath.Join(s.dir, "LICENSE"), 0o644},
		{"NOTICE", filepath.Join(s.dir, "NOTICE"), 0o644},
		{"CHANGELOG.md", filepath.Join(s.dir, "CHANGELOG.md"), 0o644},
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		files = append(files, file{"completions/writ." + shell, s.built.completions[shell], 0o644})
	}
	from := map[string]string{"man": s.built.man}
	if p.OS == "linux" {
		from["systemd"] = filepath.Join(s.dir, "deploy/systemd")
	}
	for _, folder := range []string{"man", "systemd"} {
		if from[folder] == "" {
			continue
		}
		names, err := namesIn(from[folder])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			files = append(files, file{path.Join(folder, name), filepath.Join(from[folder], name), 0o644})
		}
	}
	for i := range files {
		files[i].name = path.Join(fmt.Sprintf("writ_%s_%s_%s", s.bare(), p.OS, p.Arch), files[i].name)
	}
	return files, nil
}
