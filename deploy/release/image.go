package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The user of a container and its data directory.
const (
	containerUser = 65532
	containerData = "/var/lib/writ"
)

// image writes an OCI archive with the container images of all Linux platforms. An image contains the program, a user
// and a data directory. It has no shell, libraries or certificates.
func (s *packer) image(target string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range s.built.programs {
		if p.OS != "linux" {
			continue
		}
		made, err := s.imageOf(p)
		if err != nil {
			return fmt.Errorf("make %s: %w", target, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch},
			// The name of the image in other tools.
			Annotations: map[string]string{"org.opencontainers.image.ref.name": s.bare()},
		}})
	}
	dir, err := os.MkdirTemp(s.built.dir, "image-")
	if err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	files, err := filesBelow(dir)
	if err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	archive, err := s.tar(files)
	if err != nil {
		return fmt.Errorf("make %s: %w", target, err)
	}
	return s.write(target, archive)
}

// imageOf builds the image of a platform.
func (s *packer) imageOf(p program) (v1.Image, error) {
	layer, err := s.layer(p)
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: s.made}, CreatedBy: "writ " + s.version},
		MediaType: types.OCILayer,
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.OS, p.Arch, v1.Time{Time: s.made}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/writ"}, User: fmt.Sprintf("%d:%d", containerUser, containerUser),
		WorkingDir: containerData,
		Env:        []string{"PATH=/usr/bin", "HOME=" + containerData},
		Volumes:    map[string]struct{}{containerData: {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "writ", "org.opencontainers.image.version": s.bare(),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// layer returns the layer with all files of a container.
func (s *packer) layer(p program) (v1.Layer, error) {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		mode int64
		user int
		data []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nwrit:x:%d:\n", containerUser)},
		{
			"etc/passwd", 0o644, 0,
			fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nwrit:x:%d:%[1]d:writ:%s:/sbin/nologin\n", containerUser,
				containerData),
		},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/writ", 0o755, 0, data},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/writ/", 0o700, containerUser, nil},
	} {
		header := &tar.Header{
			Name: f.name, Mode: f.mode, Uid: f.user, Gid: f.user, Size: int64(len(f.data)), ModTime: s.made,
			Format: tar.FormatPAX, Typeflag: tar.TypeReg,
		}
		if f.data == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// filesBelow lists the files below a directory, sorted by path.
func filesBelow(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{filepath.ToSlash(name), path, 0o644})
		return err
	})
	return files, err
}
