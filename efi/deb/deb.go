// Package deb takes files out of Debian packages, without their scripts and without dpkg. It must not know which files are wanted, nor whether a
// package is genuine: apt verifies that when it downloads one.
package deb

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// The form of a package: an archive of ar(5), in which the member data.tar has the files and the
// member control.tar says what it is.
const (
	magic      = "!<arch>\n"
	headerSize = 60
	headerEnd  = "`\n"
	dataName   = "data.tar"

	controlName = "control.tar"
)

// unpacked are the kinds of files that are unpacked.
var unpacked = []byte{tar.TypeReg, tar.TypeSymlink, tar.TypeLink}

// Bounds of what a package unpacks to: few bytes can become very many.
const (
	largest = 256 << 20 // bytes of a file; the largest that are of use have some MiB
	most    = 4 << 30   // bytes of all files; Debian's kernels and firmware have some hundred MiB
)

// Package is what a package says of itself, and which of its files were written.
type Package struct {
	Name, Version, Architecture string

	Files []string
}

// Unpack writes those files of a package below a directory that are wanted. Only regular files and links are written. Names have no leading "./",
// and cannot lead out of the directory; who reads a link must see that it does not, as os.Root does.
func Unpack(p io.Reader, into *os.Root, wanted func(name string) bool) (*Package, error) {
	in := bufio.NewReader(p)
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(in, start); err != nil || string(start) != magic {
		return nil, errors.New("it is no Debian package")
	}
	pkg := &Package{}
	for {
		header := make([]byte, headerSize)
		if _, err := io.ReadFull(in, header); err != nil {
			return nil, fmt.Errorf("it has no member %s: %w", dataName, err)
		}
		name := strings.TrimSuffix(strings.TrimSpace(string(header[:16])), "/")
		size, err := strconv.ParseInt(strings.TrimSpace(string(header[48:58])), 10, 64)
		if err != nil || size < 0 || string(header[58:]) != headerEnd {
			return nil, errors.New("it is damaged: a member has no header")
		}
		member := &io.LimitedReader{R: in, N: size}
		if compression, ok := strings.CutPrefix(name, dataName); ok {
			return pkg, eachFile(member, name, compression, func(header *tar.Header, name string, content io.Reader) error {
				return pkg.unpack(header, name, content, into, wanted)
			})
		}
		if compression, ok := strings.CutPrefix(name, controlName); ok {
			if err := eachFile(member, name, compression, pkg.readControl); err != nil {
				return nil, err
			}
		}
		if _, err := io.CopyN(io.Discard, in, member.N+size&1); err != nil {
			return nil, fmt.Errorf("it is damaged: %w", err)
		}
	}
}

// eachFile calls a function with each file of a member, which is compressed as its name ends.
func eachFile(in io.Reader, member, compression string, do func(header *tar.Header, name string, content io.Reader) error) (err error) {
	switch compression {
	case "":
	case ".gz":
		in, err = gzip.NewReader(in)
	case ".xz":
		in, err = xz.NewReader(in)
	case ".zst":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(in, zstd.WithDecoderMaxMemory(largest)); err == nil {
			defer z.Close()
			in = z
		}
	default:
		return fmt.Errorf("its files are compressed as %s, which is not known", member)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", member, err)
	}
	files := tar.NewReader(&bounded{in, most})
	for {
		header, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", member, err)
		}
		name := clean(header.Name)
		if header.Size > largest {
			return fmt.Errorf("unpack %s: it has %d bytes, more than the %d that are possible", name, header.Size, largest)
		}
		if err := do(header, name, files); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
}

// bounded reads less than so many bytes, and fails where an io.LimitedReader seems to be at its end.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left <= 0 {
		return 0, errors.New("it has more than any package that is of use")
	}
	return n, err
}

// readControl reads the fields of the file "control" that say which package it is.
func (p *Package) readControl(_ *tar.Header, name string, content io.Reader) error {
	if name != "control" {
		return nil
	}
	for lines := bufio.NewScanner(io.LimitReader(content, 1<<20)); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch value = strings.TrimSpace(value); field {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.Architecture = value
		}
	}
	return nil
}

// unpack writes a file or a link that is wanted.
func (p *Package) unpack(header *tar.Header, name string, content io.Reader, into *os.Root, wanted func(string) bool) error {
	if !slices.Contains(unpacked, header.Typeflag) || !wanted(name) {
		return nil
	}
	p.Files = append(p.Files, name)
	if err := into.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return into.Symlink(header.Linkname, name)
	case tar.TypeLink: // one of several names of a file, the first of which came before
		return into.Link(clean(header.Linkname), name)
	default:
		return write(into, name, content)
	}
}

// clean is a name without its leading "./".
func clean(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

func write(into *os.Root, name string, content io.Reader) error {
	file, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
